package upstream_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/schema/upstream"
)

func TestProjectKeepsWhatCounts(t *testing.T) {
	const schema = `
type: object
required: [plain, gone]
x-kubernetes-validations:
- rule: "!has(self.said) || self.said.foo__dash__bar == 'it.quoted'"
properties:
  plain: {type: string, description: text}
  gone: {type: string}
  deep: {type: object, properties: {gone: {type: string}}}
  defaulted: {type: object, default: {in: {}}, properties: {in: {type: object, properties: {a: {type: string, default: x}, gone: {type: string}}}, gone: {type: string}}}
  said: {type: object, properties: {foo-bar: {type: string}, gone: {type: string}, quoted: {type: string}}}
  map: {type: object, additionalProperties: {type: object, properties: {a: {type: string}, gone: {type: string}}}}
  list: {type: array, items: {type: object, properties: {a: {type: string}, b: {type: string}, gone: {type: string}}}}
  either: {type: object, properties: {a: {type: string}, gone: {type: string}}, anyOf: [{required: [gone]}, {properties: {a: {pattern: x}, gone: {pattern: z}}}]}
`
	const want = `
type: object
required: [plain, gone]
x-kubernetes-validations:
- rule: "!has(self.said) || self.said.foo__dash__bar == 'it.quoted'"
properties:
  plain: {type: string}
  defaulted: {type: object, default: {in: {}}, properties: {in: {type: object, properties: {a: {type: string, default: x}}}}}
  said: {type: object, properties: {foo-bar: {type: string}, quoted: {type: string}}}
  map: {type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}
  list: {type: array, items: {type: object, properties: {a: {type: string}, b: {type: string}}}}
  either: {type: object, properties: {a: {type: string}}, anyOf: [{required: [gone]}, {properties: {a: {pattern: x}, gone: {pattern: z}}}]}
`
	in := schemaOf(t, schema)
	before := in.DeepCopy()
	wanted := schemaOf(t, want)
	wanted.XValidations = apiextensionsv1.ValidationRules{{}} // an empty rule says that there are rules below
	got := upstream.Project(in,
		widget(t, "{plain: a, map: {k: {a: x}}, list: [{a: x}], either: {a: z}}"),
		widget(t, "{list: [{b: x}, 7]}"))
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, in); diff != "" {
		t.Errorf("the schema was changed:\n%s", diff)
	}
}

func TestProjectLeavesOddSchemasWhole(t *testing.T) {
	for _, schema := range []string{
		"{type: object, patternProperties: {x: {type: string}}, properties: {a: {type: string}}}",
		"{type: object, dependencies: {a: [b]}, properties: {a: {type: string}}}",
		"{type: array, items: [{type: string}]}",
	} {
		in := schemaOf(t, schema)
		if diff := cmp.Diff(in, upstream.Project(in, widget(t, "{}"))); diff != "" {
			t.Errorf("-schema +projection:\n%s", diff)
		}
	}
}

// TestProjectionChangesNoVerdict compares requests under whole and projected schemas.
func TestProjectionChangesNoVerdict(t *testing.T) {
	seeds(t, 200, func(seed uint64) { compareProjection(t, seed) })
}

func FuzzProject(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { compareProjection(t, seed) })
}

func compareProjection(t *testing.T, seed uint64) {
	t.Helper()
	g := generator{rand.New(rand.NewPCG(seed, 1))}
	schema := g.root()
	o := widgets
	o.StatusSubresource = g.chance(50)
	fit := pick(g, 70, 90, 97)
	obj, old := g.resource(schema, fit), g.resource(schema, fit)
	whole, err := upstream.New(schema, o)
	if err != nil {
		return // such a schema has no verdict to keep
	}
	part := newValidator(t, upstream.Project(schema, obj, old), o)
	p := upstream.NewProjector(schema, o)
	if g.chance(50) { // rules compiled for another projection
		if v, err := p.For(g.resource(schema, fit), obj); err == nil {
			verdicts(t, v, obj, obj)
		}
	}
	shared, err := p.For(obj, old)
	if err != nil {
		t.Fatal(err)
	}
	diff := compareVerdicts(t, whole, part, obj, old)
	if diff == "" {
		diff = compareVerdicts(t, whole, shared, obj, old)
	}
	if diff != "" {
		t.Errorf("seed %d: -whole +projected:\n%s\nschema:\n%s\nprojection:\n%s\nobject:\n%s\nold:\n%s", seed, diff,
			asYAML(t, schema), asYAML(t, upstream.Project(schema, obj, old)), asYAML(t, obj), asYAML(t, old))
	}
}

// compareVerdicts says how two validators differ that should not. Which of several runtime errors of a rule shows is
// decided by the order of Go's maps, so they are asked again before they are said to differ.
func compareVerdicts(t testing.TB, a, b *upstream.Validator, obj, old map[string]any) string {
	t.Helper()
	diff := ""
	var agreed map[string]bool
	var seenA, seenB map[string]bool
	for range 100 {
		want, got := verdicts(t, a, obj, old), verdicts(t, b, obj, old)
		newDiff := cmp.Diff(want, got)
		if newDiff == "" {
			return ""
		}
		if agreed == nil {
			agreed, seenA, seenB, diff = map[string]bool{}, map[string]bool{}, map[string]bool{}, newDiff
		}
		for i := range got {
			keyA, keyB := asYAML(t, want[i]), asYAML(t, got[i])
			seenA[keyA], seenB[keyB] = true, true
			if seenB[keyA] || seenA[keyB] {
				agreed[got[i].Name] = true
			}
		}
		if len(agreed) == len(got) {
			return ""
		}
	}
	return diff
}

func asYAML(t testing.TB, v any) string {
	t.Helper()
	out, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

type verdict struct {
	Name      string
	Stored    any
	Pruned    []string
	Errors    []string
	Defaulted bool
	Err       string
}

// verdicts are all that a validator has to say of an object that is created, or stored after old.
func verdicts(t testing.TB, v *upstream.Validator, obj, old map[string]any) []verdict {
	t.Helper()
	ctx := t.Context()
	var out []verdict
	add := func(name string, r upstream.Result, err error) {
		texts := errorTexts(r)
		if slicesContain(texts, "running out of cost budget") {
			texts = []string{"which rules are run is a matter of chance"}
		}
		out = append(out, verdict{Name: name, Stored: r.Stored, Pruned: r.Pruned, Errors: texts, Err: fmt.Sprint(err)})
	}
	r, err := v.Create(ctx, obj)
	add("create", r, err)
	r, err = v.CreateWithStatus(ctx, obj)
	add("create with status", r, err)
	served, pruned, defaulted, err := v.Read(obj)
	out = append(out, verdict{Name: "read", Stored: served, Pruned: pruned, Defaulted: defaulted, Err: fmt.Sprint(err)})
	for _, ratchet := range []bool{false, true} {
		r, err = v.Update(ctx, obj, old, ratchet)
		add(fmt.Sprint("update ", ratchet), r, err)
		r, err = v.UpdateStatus(ctx, obj, old, ratchet)
		add(fmt.Sprint("update of status ", ratchet), r, err)
		r, err = v.TouchUpdate(ctx, obj, ratchet)
		add(fmt.Sprint("touch ", ratchet), r, err)
	}
	return out
}

func slicesContain(texts []string, part string) bool {
	for _, text := range texts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
