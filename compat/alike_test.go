package compat

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/schema/contain"
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
