package compat

import (
	"strings"
	"testing"

	"sluice.dev/report"
)

// A level that is shown by one object and not proven of all says so, and names what is not ruled out.
func TestLevelsAreProvenOrAtLeast(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		level, mayBe   report.Level
	}{
		{"a value that always equals itself", "a: {type: integer}", "a: {type: integer, maximum: 5}", report.ObjectsRatcheted, ""},
		{
			"what was anything may be an object with unknown fields", "a: {x-kubernetes-preserve-unknown-fields: true}",
			"a: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {b: {type: string}}}", report.ObjectsStuck, "",
		},
		{"another type", "a: {type: object}", "a: {type: string}", report.ObjectsStuck, ""},
		{
			"a rule of another field reads it", "a: {type: object, properties: {b: {type: string}}, x-kubernetes-validations: [{rule: '!has(oldSelf.b) || has(self.b)'}]}",
			"a: {type: object, properties: {b: {type: string, format: duration}}, x-kubernetes-validations: [{rule: '!has(oldSelf.b) || has(self.b)'}]}", report.ObjectsStuck, "",
		},
		{"filled in before it is stored", "a: {type: object, properties: {b: {type: string, default: x}}}", "a: {type: object, required: [b], properties: {b: {type: string}}}", report.WritersRefused, ""},
		{
			"filled in here, and not elsewhere", "a: {type: object, properties: {b: {type: string, default: x}, c: {type: string}}}",
			"a: {type: object, minProperties: 2, properties: {b: {type: string}, c: {type: string}}}", report.ObjectsRatcheted, "",
		},
		{"never changed", "a: {type: object, properties: {b: {type: string, default: ''}}}", "a: {type: object, properties: {b: {type: string, default: ''}}, x-kubernetes-validations: [{rule: self == oldSelf}]}", report.WritersRefused, ""},
		{"always grows", "a: {type: integer}", "a: {type: integer, x-kubernetes-validations: [{rule: self > oldSelf}]}", report.ObjectsStuck, ""},
		{
			"sometimes grows", "a: {type: integer}", "a: {type: integer, x-kubernetes-validations: [{rule: self > oldSelf || self != 7813}]}", report.ObjectsStuck, "",
		},
		{
			"an optional stored value", "a: {type: integer}", "a: {type: integer, x-kubernetes-validations: [{rule: 'oldSelf.hasValue() || self < 5', optionalOldSelf: true}]}", report.WritersRefused, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Check(t.Context(), specCRD(t, c.old), specCRD(t, c.new), Options{})
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, f := range r.Findings {
				if f.Outcome != report.Violation || f.Level == report.MeaningChanged {
					continue
				}
				found = true
				if f.Level != c.level || f.MayBe != c.mayBe {
					t.Errorf("%s: %s, may be %q; want %s, %q", f.Rule, f.Level, f.MayBe, c.level, c.mayBe)
				}
				if says := strings.Contains(f.Message, "at least "+string(f.Level)); says != (c.mayBe != "") {
					t.Errorf("%q", f.Message)
				}
			}
			if !found {
				t.Errorf("nothing was found: %v", r.Findings)
			}
		})
	}
}
