package compat

import (
	"slices"
	"strings"
	"testing"

	"sluice.dev/report"
)

// What a finding quotes is what the API server says to the witness, and its level is that of the object that fares worst: where
// something else is wrong with an object, the API server does not evaluate the rules.
func TestTheServersWordsAndTheWorstLevel(t *testing.T) {
	for name, c := range map[string]struct {
		old, new, rule string
		level          report.Level
		alone          bool // the rule is what the API server says
	}{
		"objects that break the rule alone exist": {
			"x: {type: integer}", "x: {type: integer, maximum: 5, x-kubernetes-validations: [{rule: self < 4}]}", "validation-rule-added", report.ObjectsRatcheted, true,
		},
		"every object that breaks the rule breaks the bound": {
			"x: {type: string}", "x: {type: string, maxLength: 3, x-kubernetes-validations: [{rule: self.size() <= 3}]}", "validation-rule-added", report.ObjectsRatcheted, false,
		},
		"every object lacks what is required elsewhere": {
			"o: {type: object, properties: {x: {type: integer}}}",
			"o: {type: object, required: [y], properties: {x: {type: integer, x-kubernetes-validations: [{rule: self < 4}]}, y: {type: string}}}",
			"validation-rule-added", report.ObjectsRatcheted, false,
		},
		"the field that is required elsewhere can be there": {
			"{x: {type: integer}, y: {type: object, properties: {z: {type: string}}}}",
			"{x: {type: integer, x-kubernetes-validations: [{rule: self < 4}]}, y: {type: object, required: [z], properties: {z: {type: string}}}}",
			"validation-rule-added", report.ObjectsRatcheted, true,
		},
		"the simplest object is out of trouble once it is stored, another one is not": {
			"o: {type: object, properties: {x: {type: integer, default: 1}, z: {type: integer}}}",
			"o: {type: object, properties: {x: {type: integer}, z: {type: integer}}, x-kubernetes-validations: [{rule: 'has(self.x) && (!has(self.z) || self.z < 5)'}]}",
			"validation-rule-added", report.ObjectsRatcheted, true,
		},
		"a stored default is out of trouble, another value is not": {
			"x: {type: integer, default: 1}", "{x: {type: integer, maximum: 5}}", "maximum-lowered", report.ObjectsRatcheted, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			old, new := specCRD(t, c.old), specCRD(t, c.new)
			got := check(t, old, new)
			i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == c.rule })
			if i < 0 {
				t.Fatalf("%v", ruleIDs(got.Findings))
			}
			f := got.Findings[i]
			if f.Level != c.level {
				t.Errorf("%s, want %s: %s", f.Level, c.level, f.Witness.Object)
			}
			if masked := strings.HasSuffix(f.Witness.Effect, notEvaluated); masked == c.alone {
				t.Errorf("%s", f.Witness.Effect)
			}
			requireWitness(t, old, new, f)
		})
	}
}
