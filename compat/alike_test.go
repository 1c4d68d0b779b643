package compat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/report"
	"sluice.dev/schema/contain"
	"sluice.dev/tools/draws"
)

// threeVersions is a CRD of three versions with one schema.
func threeVersions(t *testing.T, spec, more string) *crd {
	t.Helper()
	var b strings.Builder
	b.WriteString("metadata: {name: widgets.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n" +
		"  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}\n  versions:\n")
	for i, name := range []string{"v1", "v1beta1", "v1alpha1"} {
		fmt.Fprintf(&b, "  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, %s properties: {spec: {type: object, properties: {%s}}}}}}\n",
			name, i == 0, more, spec)
	}
	var out apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(b.String()), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestVersionsThatSayTheSameAreAskedOnce(t *testing.T) {
	const aboutVersion = `x-kubernetes-validations: [{rule: "self.apiVersion != 'example.com/v1' || !has(self.spec.a) || self.spec.a.size() < 4"}],`
	for name, test := range map[string]struct {
		more string
		most int
	}{
		"plain":                      {"", 3},            // old to new, old to old, new to new
		"rules of single versions":   {aboutVersion, 15}, // to each other version, the rule reads another apiVersion
		"rules that all can be told": {`x-kubernetes-validations: [{rule: "!has(self.spec.b) || self.spec.b.size() < 4"}],`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			old := threeVersions(t, "a: {type: string, maxLength: 9}, b: {type: string, maxLength: 9}", test.more)
			new := threeVersions(t, "a: {type: string, maxLength: 5}", test.more)
			c := newComparison(old, new, Options{})
			c.applyRules(t.Context())
			if len(c.answers) > test.most {
				t.Errorf("%d different questions, want at most %d", len(c.answers), test.most)
			}
			shown, shorter := 0, map[string]bool{}
			for p, gaps := range c.gaps {
				for _, g := range gaps {
					if g.Verdict != contain.NotContained {
						t.Errorf("%s to %s: %s %s is %s", p.from.Name, p.to.Name, g.Path, g.Keyword, g.Verdict)
						continue
					}
					shown++
					shorter[p.from.Name] = shorter[p.from.Name] || g.Path.String() == ".spec.a"
					if got, want := g.Witness.Object["apiVersion"], "example.com/"+p.from.Name; got != want {
						t.Errorf("%s to %s: the object is of %v", p.from.Name, p.to.Name, got)
					}
					judge, err := c.validatorOf(p.from)
					if err != nil {
						t.Fatal(err)
					}
					if r, err := judge.Create(t.Context(), g.Witness.Object); err != nil || r.Refused() {
						t.Errorf("%s to %s: %s refuses %v: %v %v", p.from.Name, p.to.Name, p.from.Name, g.Witness.Object, r.Errors, err)
					}
				}
			}
			if !shorter["v1beta1"] || !shorter["v1alpha1"] || shorter["v1"] != (test.more != aboutVersion) {
				t.Errorf("versions of which an object is refused for .spec.a: %v", shorter)
			}
			if shown < 6 {
				t.Errorf("%d witnesses; the test shows little", shown)
			}
		})
	}
}

// TestNewVersionsThatSayTheSameAreNotCompared: what one of them fills in and stores fits the other, however hard its rules are to prove.
func TestNewVersionsThatSayTheSameAreNotCompared(t *testing.T) {
	const hard = "a: {type: array, maxItems: 9, items: {type: object, properties: {k: {type: string, default: x, maxLength: 9}, n: {type: integer}}}, " +
		"x-kubernetes-validations: [{rule: 'self.all(x, self.exists_one(y, x.k == y.k && has(x.n) == has(y.n) && (!has(x.n) || x.n == y.n)))'}]}"
	const aboutVersion = `x-kubernetes-validations: [{rule: "self.apiVersion != 'example.com/v1' || !has(self.spec.b)"}],`
	for _, more := range []string{"", aboutVersion} {
		old := threeVersions(t, hard, "")
		old.Spec.Versions = old.Spec.Versions[:1]
		new := threeVersions(t, hard+", b: {type: string, maxLength: 9}", more)
		c := newComparison(old, new, Options{})
		c.applyRules(t.Context())
		asked := 0
		for p := range c.gaps {
			if !p.from.isOld {
				asked++
			}
		}
		if (asked > 0) != (more != "") {
			t.Errorf("%q: %d questions about objects of new versions", more, asked)
		}
	}
}

// TestAVersionMoreThatSaysTheSame: a version more that says what v1 says, in both CRDs, changes neither the verdict nor any finding of the
// other versions. Hard schemas are still decided by the usual budget.
func TestAVersionMoreThatSaysTheSame(t *testing.T) {
	more := func(d *crd) *crd {
		d = d.DeepCopy()
		twin := *versionOf(d, "v1").DeepCopy()
		twin.Name, twin.Storage = "v1beta1", false
		d.Spec.Versions = append(d.Spec.Versions, twin)
		return d
	}
	harmed, moved := 0, 0
	for seed := range draws.Seeds(2000) {
		p := drawUnions(seed)
		alone, both := check(t, p.old, p.new), check(t, more(p.old), more(p.new))
		if slices.ContainsFunc(alone.Findings, func(f report.Finding) bool {
			return f.Rule == "crd-refused-by-api-server" || f.Rule == "old-crd-invalid"
		}) {
			continue // the API server speaks of all versions at once
		}
		if alone.Verdict != both.Verdict {
			t.Errorf("alone %s, with v1beta1 %s\n%s%s%s", alone.Verdict, both.Verdict, listed(alone), listed(both), p)
		}
		if len(alone.Findings) > 0 {
			harmed++
		}
		if !versionOf(p.new, "v1").Storage {
			moved++
		}
		others := both
		others.Findings = slices.DeleteFunc(slices.Clone(both.Findings), func(f report.Finding) bool {
			return f.Version == "v1beta1" || strings.Contains(f.Message, "v1beta1")
		})
		if got, want := listed(others), listed(alone); got != want {
			t.Errorf("seed %d: with v1beta1:\n%salone:\n%s%s", seed, listed(both), want, p)
		}
	}
	if least := draws.Count(2000); harmed*3 < least || moved*40 < least {
		t.Errorf("%d pairs with findings, %d that move the storage version: the test says little", harmed, moved)
	}
}

// TestVersionsThatAreAlikeAreNotCompared: there is no question between them, and there is one between versions whose subresources differ.
func TestVersionsThatAreAlikeAreNotCompared(t *testing.T) {
	for _, status := range []bool{false, true} {
		old, new := threeVersions(t, "a: {type: string, maxLength: 9}", ""), threeVersions(t, "a: {type: string, maxLength: 5}", "")
		if status {
			for _, d := range []*crd{old, new} {
				d.Spec.Versions[1].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
			}
		}
		c := newComparison(old, new, Options{})
		c.applyRules(t.Context())
		between := 0
		for p := range c.gaps {
			if p.from.Name != p.to.Name {
				between++
			}
		}
		if between > 0 != status {
			t.Errorf("status %t: %d questions between versions", status, between)
		}
	}
}

// TestRulesOfVersionsThatDifferAreNotProvenAgain: the defaults of a reader make a version stricter, and what its rules say stays true.
func TestRulesOfVersionsThatDifferAreNotProvenAgain(t *testing.T) {
	const list = "list: {type: array, maxItems: 8, items: {type: object, properties: {" +
		"when: {type: array, maxItems: 8, items: {type: object, properties: {path: {type: object, properties: {mode: {type: string, enum: [A, B], default: A}}}}}}, " +
		"steps: {type: array, maxItems: 8, items: {type: object, properties: {code: {type: integer, default: 302}, to: {type: object, properties: {mode: {type: string, enum: [A, B]}, at: {type: string, maxLength: 9}}}}}}}, " +
		"x-kubernetes-validations: [{rule: 'has(self.steps) && self.steps.exists_one(s, has(s.to) && has(s.to.mode) && s.to.mode == \"B\" && has(s.to.at)) ? size(self.when) == 1 && has(self.when[0].path) && self.when[0].path.mode == \"B\" : true'}]}}"
	of := func(more string) *crd {
		d := threeVersions(t, list+more, "")
		for i := range d.Spec.Versions { // each version has a field of its own, so that none is like another
			editSpec(&d.Spec.Versions[i], func(spec *props) {
				spec.XPreserveUnknownFields = new(true)
				spec.Properties["own"] = props{Type: "string", MaxLength: new(int64(10 + i))}
			})
		}
		return d
	}
	texts := map[string]int{}
	got, err := Check(t.Context(), of(""), of(", note: {type: string}"), Options{Trace: func(s Step) {
		if s.From != s.To && s.Keyword == "x-kubernetes-validations" {
			texts[s.Text]++
		}
	}})
	if err != nil || len(got.Findings) > 0 && strings.Contains(listed(got), "list") {
		t.Errorf("%v\n%s", err, listed(got))
	}
	if texts["proven: the old schema has the same keyword with the same meaning"] < 9 {
		t.Errorf("the rule is proven between versions by: %v", texts)
	}
}
