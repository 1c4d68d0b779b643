package contain

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Updates that the old schema allows and the new one refuses, though both schemas have the rule and accept both states.
func TestUpdatesThatAreRefused(t *testing.T) {
	const rule = `properties: {a: {type: string}, b: {type: string}, x: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf"}]}}`
	const list = `type: array, maxItems: 1, x-kubernetes-list-type: map, items: {type: object, required: [a, b], ` + rule + `}`
	for _, c := range []struct {
		name          string
		old, new      string // of spec
		before, after string
	}{
		{
			"items are found by fewer keys",
			list + ", x-kubernetes-list-map-keys: [a, b]", list + ", x-kubernetes-list-map-keys: [a]",
			`[{"a": "a", "b": "b", "x": "x"}]`, `[{"a": "a", "b": "c", "x": "y"}]`,
		},
		{
			"the old value is no longer an optional one",
			"type: string, x-kubernetes-validations: [{rule: '!(dyn(oldSelf) == dyn(self))', optionalOldSelf: true}]",
			"type: string, x-kubernetes-validations: [{rule: '!(dyn(oldSelf) == dyn(self))'}]",
			`"x"`, `"x"`,
		},
		{
			"what is left out is filled in with less",
			"type: object, properties: {a: {type: integer, default: 5}}, x-kubernetes-validations: [{rule: self.a >= oldSelf.a}]",
			"type: object, properties: {a: {type: integer, default: 1}}, x-kubernetes-validations: [{rule: self.a >= oldSelf.a}]",
			`{"a": 3}`, `{}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := func(s string) *apiextensionsv1.JSONSchemaProps {
				return parseSchema(t, "{type: object, properties: {spec: {"+s+"}}}")
			}
			object := func(s string) map[string]any { return resource(t, `{"spec": `+s+`}`) }
			old, new := spec(c.old), spec(c.new)
			for _, x := range []struct {
				schema  *apiextensionsv1.JSONSchemaProps
				refused bool
			}{{old, false}, {new, true}} {
				for _, s := range []string{c.before, c.after} {
					if ok, why := fine(t, validator(t, x.schema), object(s)); !ok && s != "{}" {
						t.Fatalf("%s is not accepted: %s", s, why)
					}
				}
				r, err := validator(t, x.schema).Update(t.Context(), object(c.after), object(c.before), true)
				if err != nil || r.Refused() != x.refused {
					t.Fatalf("the update is as follows, want refused %v: %v, %v", x.refused, r.Errors, err)
				}
			}
			if r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true}); r.Verdict == Contained {
				t.Error("called contained")
			}
		})
	}
}

// A transition rule is shown at work though another change refuses every object.
func TestTransitionRulesBesideAnotherChange(t *testing.T) {
	const item = "type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string, enum: [one]}, x: {type: integer, minimum: 0, maximum: 9"
	old := parseSchema(t, "{type: object, required: [spec], properties: {spec: {type: object, properties: {l: {"+item+"}}}}}}}}")
	new := parseSchema(t, "{type: object, required: [spec, more], properties: {more: {type: string}, spec: {type: object, properties: {l: {"+item+", x-kubernetes-validations: [{rule: self >= oldSelf}]}}}}}}}}")
	r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
	if !slices.ContainsFunc(r.Gaps, func(g Gap) bool {
		return g.Harm == RefusedTransition && g.Verdict == NotContained && g.Path.String() == ".spec.l[*].x" && g.Witness.Old != nil
	}) {
		t.Errorf("no update shows the rule:\n%s", strings.Join(told(r.Gaps), "\n"))
	}
}
