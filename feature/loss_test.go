package feature_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/feature"
	"sluice.dev/feature/rules"
)

func TestLossOfAPartThatBreaksARule(t *testing.T) {
	resources := []feature.Resource{{Group: "demo.dev", Resource: "pipelines", Versions: []feature.Version{{Name: "v1", Schema: node(t, `
type: object
properties:
  spec:
    type: object
    x-kubernetes-validations:
    - {rule: "has(self.needed) && self.a > 0"}
    - {rule: "has(self.one) || has(self.other)"}
    - {rule: "!has(self.free) || self.free > self.a"}
    properties:
      a: {type: integer}
      needed: {type: integer}
      one: {type: integer}
      other: {type: integer}
      free: {type: integer}
      few: {type: array, minItems: 1, items: {type: object, properties: {x: {type: string}}}}
      union:
        type: object
        properties: {a: {type: string}, b: {type: string}, c: {type: string}}
        oneOf: [{required: [a]}, {required: [b]}]
`)}}}}
	for _, tt := range []struct {
		field, more string
		reject      bool // is refused with Reject as well as with Drop
		drop        bool
	}{
		{"spec.needed", "", true, true},
		{"spec.one", "", false, true},
		{"spec.free", "", false, false},
		{"spec.few[*]", "match: [{field: x}]", false, true},
		{"spec.few[*].x", "", false, false},
		{"spec.union.a", "", false, true},
		{"spec.union.c", "", false, false},
	} {
		for mode, want := range map[string]bool{"Reject": tt.reject, "Drop": tt.drop, "Warn": false} {
			_, findings := feature.Define(component(t, componentYAML), features(t, `
- {gate: G, whenDisabled: `+mode+`, parts: [{field: "`+tt.field+`", `+tt.more+`}]}
`), feature.Options{Resources: resources, RuleWithout: rules.Without})
			got := false
			for _, f := range findings {
				got = got || f.Code == feature.CodeBreaksRule
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s: %s%v", tt.field, mode, diff, findings)
			}
		}
	}
}
