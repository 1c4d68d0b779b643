package compat

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/report"
	"sluice.dev/schema"
	"sluice.dev/tools/draws"
)

// odd are CRDs that decode and are no good otherwise.
var odd = map[string]string{
	"nothing":               `{}`,
	"no versions":           `{metadata: {name: a}, spec: {group: example.com, names: {kind: A, plural: as}, scope: Namespaced}}`,
	"a version and no more": `{spec: {versions: [{}]}}`,
	"no schema":             `{spec: {group: example.com, names: {kind: A, plural: as}, scope: Namespaced, versions: [{name: v1, served: true, storage: true}]}}`,
	"an empty schema":       `{spec: {versions: [{name: v1, served: true, storage: true, schema: {}}]}}`,
	"a schema of nothing":   `{spec: {versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {}}}]}}`,
	"nothing served":        `{spec: {versions: [{name: v1, schema: {openAPIV3Schema: {type: object}}}]}}`,
	"twice the same":        `{spec: {versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}, {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: string}}}]}}`,
	"no structure":          `{spec: {preserveUnknownFields: true, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {properties: {a: {items: {not: {}}}, b: {additionalProperties: true}}}}}]}}`,
	"odd keywords":          `{spec: {versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, $ref: x, definitions: {a: {}}, dependencies: {a: [b]}, patternProperties: {a: {}}, additionalItems: true}}}]}}`,
	"types that are none":   `{spec: {versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: thing, properties: {a: {type: 'null', enum: [null]}}}}}]}}`,
	"bad expressions":       `{spec: {versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {type: string, pattern: '('}}, x-kubernetes-validations: [{rule: '((('}, {rule: ''}]}}}]}}`,
	"negative bounds":       `{spec: {versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, maxProperties: -1, properties: {a: {type: string, maxLength: -5, minLength: -7}, b: {type: integer, multipleOf: 0}}}}}]}}`,
	"a webhook of nothing":  `{spec: {conversion: {strategy: Webhook}, versions: [{name: v1, served: true, storage: true, subresources: {scale: {}, status: {}}, selectableFields: [{}], additionalPrinterColumns: [{}], schema: {openAPIV3Schema: {type: object}}}]}}`,
	"metadata of its own":   `{spec: {versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {metadata: {type: string}, apiVersion: {type: integer}, kind: {enum: []}}}}}]}}`,
}

func TestOddCRDsAreNoTrouble(t *testing.T) {
	names := slices.Sorted(maps.Keys(odd))
	for _, a := range names {
		for _, b := range append(names, "") {
			old, new := decode(t, odd[a]), decode(t, odd[b])
			if new != nil {
				new.Name = old.Name
			}
			first := check(t, old, new)
			if diff := cmp.Diff(indented(t, first), indented(t, check(t, old, new))); diff != "" {
				t.Errorf("%s to %s: %s", a, b, diff)
			}
			for _, f := range first.Findings {
				if f.Message == "" || f.Rule == "" || f.Outcome == "" || f.Severity == "" {
					t.Errorf("%s to %s: an empty finding: %+v", a, b, f)
				}
			}
			if a == b && !first.Verdict.Proven() {
				t.Errorf("%s to itself is %s: %v", a, first.Verdict, ruleIDs(first.Findings))
			}
		}
	}
}

func decode(t testing.TB, text string) *crd {
	t.Helper()
	if text == "" {
		return nil
	}
	d := &crd{}
	if err := yaml.Unmarshal([]byte(text), d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSchemasThatAreTooDeepAreUndecided(t *testing.T) {
	nest := func(leaf props) *crd {
		p := leaf
		for range schema.MaxDepth + 10 {
			p = props{Type: "object", Properties: map[string]props{"a": p}}
		}
		d := specCRD(t, "a: {type: string}")
		d.Spec.Versions[0].Schema.OpenAPIV3Schema = &p
		return d
	}
	got := check(t, nest(props{Type: "string"}), nest(props{Type: "integer"}))
	i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "schema-changed" })
	if i < 0 || got.Findings[i].Outcome != report.Undecided || !strings.Contains(got.Findings[i].Reason, "too large") {
		t.Errorf("got %s, %v", got.Verdict, ruleIDs(got.Findings))
	}
}

func TestManyPropertiesAtOnce(t *testing.T) {
	wide := func(n int, format string) *crd {
		d := specCRD(t, "a: {type: string}")
		p := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		p.Properties = map[string]props{}
		for i := range n {
			p.Properties[fmt.Sprintf("f%05d", i)] = props{Type: "string", Format: format}
		}
		d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = p
		return d
	}
	if got := check(t, wide(10_000, ""), wide(10_001, "")); !got.Verdict.Proven() {
		t.Errorf("one property more: %s", got.Verdict)
	}
	got := check(t, wide(1_001, ""), wide(1_000, ""))
	if want := []string{"property-removed"}; !slices.Equal(ruleIDs(got.Findings), want) {
		t.Errorf("one property less: %v", ruleIDs(got.Findings))
	}
}

// FuzzCheck looks for panics, for answers that differ from run to run, and for findings of harm to objects without a
// witness.
func FuzzCheck(f *testing.F) {
	alike := similar(f)
	for _, r := range Rules() {
		for _, e := range []Example{r.Unsafe, {r.Unsafe.Old, r.Instead}, alike[r.ID]} {
			old, new, err := crdsOf(&r, e)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(asYAML(f, old), asYAML(f, new))
		}
	}
	for _, a := range odd {
		f.Add(a, odd["no structure"])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		old, new := &crd{}, &crd{}
		if yaml.Unmarshal([]byte(a), old) != nil || yaml.Unmarshal([]byte(b), new) != nil {
			return
		}
		new.Name = old.Name
		o := Options{Budget: 50_000}
		first, err := Check(t.Context(), old, new, o)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Check(t.Context(), old.DeepCopy(), new.DeepCopy(), o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(indented(t, first), indented(t, again)); diff != "" {
			t.Fatal(diff)
		}
		for _, x := range first.Findings {
			harm := x.Level == report.ObjectsStuck || x.Level == report.ObjectsRatcheted || x.Level == report.WritersRefused
			if harm && x.Witness == nil {
				t.Fatalf("%s without a witness", x.Rule)
			}
		}
	})
}

func asYAML(t testing.TB, d *apiextensionsv1.CustomResourceDefinition) string {
	t.Helper()
	raw, err := yaml.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// hostilePairs are small changes that took minutes or gigabytes once.
func hostilePairs(t *testing.T) map[string][2]string {
	t.Helper()
	letters := func(n int, f func(i int) string) string {
		out := make([]string, n)
		for i := range out {
			out[i] = f(i)
		}
		return strings.Join(out, ", ")
	}
	list := "properties: {l: {type: array, maxItems: 20, items: {type: object, required: [k, v], properties: {k: {type: string, maxLength: 20}, v: {type: string, maxLength: 20}}}}}"
	rules := func(n int) string {
		return list + ", x-kubernetes-validations: [" + letters(n, func(i int) string {
			return fmt.Sprintf(`{rule: "self.l.all(a, self.l.all(b, a.k == b.k ? a.v == b.v : (a.v.contains(b.k) || a.v.matches('^[a-z]{1,%d}$'))))"}`, 10+i)
		}) + "]"
	}
	patterns := func(n int) string {
		return "properties: {p: {type: string, allOf: [" + letters(n, func(i int) string {
			return fmt.Sprintf("{pattern: '^(a|b|c)*%c[a-z]{%d,%d}(x|y)*$'}", 'a'+i%8, i%7, i%7+20)
		}) + "]}}"
	}
	ends := func(c string) string {
		return "properties: {p: {type: string, allOf: [" + letters(24, func(i int) string { return fmt.Sprintf("{pattern: '.*%s.{%d}$'}", c, 10+i) }) + "]}}"
	}
	enum := func(from, to int) string {
		return "properties: {e: {type: string, enum: [" + letters(to-from, func(i int) string { return fmt.Sprintf("value-%d", from+i) }) + "]}}"
	}
	fields := func(n, length int) string {
		return "properties: {" + letters(n, func(i int) string { return fmt.Sprintf("f%05d: {type: string, maxLength: %d}", i, length) }) + "}"
	}
	unions := func(rule string) string {
		return "required: [type], properties: {type: {type: string}, " + letters(40, func(i int) string { return fmt.Sprintf("t%d: {type: string}", i) }) +
			"}, x-kubernetes-validations: [" + letters(40, func(i int) string { return fmt.Sprintf(`{rule: "%s"}`, strings.ReplaceAll(rule, "X", fmt.Sprint(i))) }) + "]"
	}
	return map[string][2]string{
		"one rule":              {list, rules(1)},
		"30 rules":              {list, rules(30)},
		"48 patterns":           {patterns(24), patterns(48)},
		"patterns that explode": {ends("a"), ends("b")},
		"30,000 values":         {enum(0, 30_000), enum(1, 30_000)},
		"30,000 values kept":    {enum(1, 30_000), enum(0, 30_000)},
		"5,000 fields":          {fields(5_000, 20), fields(5_000, 10)},
		"a union of 40":         {unions("!(has(self.tX) && self.type != 'TX')"), unions("has(self.tX) == (self.type == 'TX')")},
	}
}

// A small change costs little, whatever is in it: what is allocated is bounded with the work, and what was not decided by
// then is undecided. Twice the same is found.
func TestHostilePairsAreBounded(t *testing.T) {
	const most = 2 << 30 // what is allocated in all; far less is in use at a time
	for name, pair := range hostilePairs(t) {
		t.Run(name, func(t *testing.T) {
			old, new := specCRD(t, "s: {type: object, "+pair[0]+"}"), specCRD(t, "s: {type: object, "+pair[1]+"}")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			first := check(t, old, new)
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > most {
				t.Errorf("%d MiB allocated, want at most %d", got>>20, most>>20)
			}
			if draws.All() {
				if diff := cmp.Diff(indented(t, first), indented(t, check(t, old, new))); diff != "" {
					t.Errorf("the second time something else is found (-first +second):\n%s", diff)
				}
			}
			small, err := Check(t.Context(), old, new, Options{Budget: 10})
			if err != nil || small.Verdict.Proven() {
				t.Errorf("with hardly any budget: %s, %v", small.Verdict, err)
			}
		})
	}
}
