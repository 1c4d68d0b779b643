package contain

import (
	"testing"

	"sluice.dev/schema/upstream"
)

// Storage and clients write 1.0 as 1. What refuses such numbers alone is told apart, and hides nothing else.
func TestNumbersThatNobodyWrites(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, new string
		oddAlone bool
		witness  Witness // its flags
	}{
		{
			"a rule says what the schema says",
			"type: integer, maximum: 5", "type: integer, maximum: 5, x-kubernetes-validations: [{rule: self <= 5}]",
			true,
			Witness{WritersOnly: true},
		},
		{
			"a rule that is always true",
			"type: integer", "type: integer, x-kubernetes-validations: [{rule: self < 5 || self >= 5}]",
			true,
			Witness{WritersOnly: true},
		},
		{
			"a rule that integers break",
			"type: integer", "type: integer, x-kubernetes-validations: [{rule: self <= 5}]",
			false,
			Witness{Ratcheted: true},
		},
		{
			"a rule over two integers that the bounds of one leave open",
			"type: object, required: [a, b], properties: {a: {type: integer}, b: {type: integer}}",
			"type: object, required: [a, b], properties: {a: {type: integer}, b: {type: integer}}, x-kubernetes-validations: [{rule: self.a <= self.b}]",
			false,
			Witness{Ratcheted: true},
		},
		{
			"a rule about strings of a format, which all of them satisfy",
			"type: string, format: ipv4", "type: string, format: ipv4, x-kubernetes-validations: [{rule: size(self) >= 0}]",
			true,
			Witness{Stuck: true},
		},
		{
			"a rule about strings of a format, which some do not satisfy",
			"type: string, format: ipv4", "type: string, format: ipv4, x-kubernetes-validations: [{rule: '!ip(self).isLoopback()'}]",
			false,
			Witness{Ratcheted: true},
		},
		{
			"a number becomes an integer",
			"type: number", "type: integer", false,
			Witness{Ratcheted: true},
		},
		{
			"a number gets a bound that a whole number breaks",
			"type: number", "type: number, maximum: 5", false,
			Witness{Ratcheted: true},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := parseSchema(t, "{type: object, properties: {spec: {"+c.old+"}}}")
			new := parseSchema(t, "{type: object, properties: {spec: {"+c.new+"}}}")
			r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
			if len(r.Gaps) != 1 || r.Verdict != NotContained {
				t.Fatalf("verdict %v, gaps %v", r.Verdict, told(r.Gaps))
			}
			g, w := r.Gaps[0], r.Gaps[0].Witness
			if g.OddAlone != c.oddAlone {
				t.Errorf("odd values alone: %v, want %v: %v", g.OddAlone, c.oddAlone, w.Object)
			}
			if w.WritersOnly != c.witness.WritersOnly || w.Ratcheted != c.witness.Ratcheted || w.Stuck != c.witness.Stuck {
				t.Errorf("writers only %v, ratcheted %v, stuck %v", w.WritersOnly, w.Ratcheted, w.Stuck)
			}
		})
	}
}

// The same where int-or-string gets the anyOf that spells it out, whether or not a witness was found.
func TestIntOrStringSpeltOut(t *testing.T) {
	old := parseSchema(t, `{type: object, properties: {spec: {x-kubernetes-int-or-string: true}}}`)
	new := parseSchema(t, `{type: object, properties: {spec: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}}}`)
	r := Decide(t.Context(), side(t, old), side(t, new), Options{})
	if len(r.Gaps) != 1 || !r.Gaps[0].OddAlone {
		t.Errorf("verdict %v, gaps %v", r.Verdict, told(r.Gaps))
	}
}

// A rule that the unchanged object breaks refuses every update: the object is stuck.
func TestTransitionRuleThatUnchangedObjectsBreak(t *testing.T) {
	old := parseSchema(t, `{type: object, properties: {spec: {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf}]}}}`)
	new := parseSchema(t, `{type: object, properties: {spec: {type: integer, x-kubernetes-validations: [{rule: self > oldSelf}]}}}`)
	r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
	if len(r.Gaps) != 1 || r.Gaps[0].Witness == nil || !r.Gaps[0].Witness.Stuck {
		t.Fatalf("verdict %v, gaps %+v", r.Verdict, r.Gaps)
	}
	v, err := upstream.New(new, upstream.Options{Group: "example.com", Version: "v1", Kind: "Example", Namespaced: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := v.TouchUpdate(t.Context(), r.Gaps[0].Witness.Object, true); err != nil || !got.Refused() {
		t.Errorf("an update of nothing but a label is accepted (%v)", err)
	}
}

// The constants of a rule that has no exact translation lead to what it refuses.
func TestConstantsOfRulesAreTried(t *testing.T) {
	for _, c := range []struct{ schema, rule string }{
		{"type: array, maxItems: 5, items: {type: integer}", "self.sum() <= 100"},
		{"type: array, maxItems: 5, items: {type: integer}", "self.isSorted()"},
		{"type: string, maxLength: 20", "self.find('[0-9]+') != '42'"},
		{"type: string, maxLength: 20", "self.replace('a', 'b') != 'bbb'"},
		{"type: string, maxLength: 20", "!self.lowerAscii().matches('^v[0-9]+$')"},
		{"type: string, maxLength: 20", "self.trim() == self"},
		{"type: string, maxLength: 20", "self.reverse() == self"},
		{"type: string, maxLength: 20", "isSemver(self) ? semver(self).major() < 1 : true"},
		{"type: integer, minimum: 0", "self % 1024 != 512"},
		{"type: object, required: [a, b], properties: {a: {type: integer, minimum: 0}, b: {type: integer, minimum: 0}}", "self.a * self.b <= 1000"},
		{"type: object, required: [a, b], properties: {a: {type: string, maxLength: 60}, b: {type: string, maxLength: 60}}", "self.a.size() + self.b.size() <= 63"},
		{"type: object, required: [a, b], properties: {a: {type: integer, minimum: 0, maximum: 65535}, b: {type: integer, minimum: 0, maximum: 65535}}", "self.b - self.a <= 10"},
		{"type: object, required: [a, b], properties: {a: {type: integer}, b: {type: integer}}", "self.a - self.b <= 1000"},
		{"type: object, required: [a, b], properties: {a: {type: number, maximum: 5}, b: {type: integer, minimum: 1, exclusiveMinimum: true}}", "double(self.b) - self.a < 100.0"},
		{"type: object, required: [a, b, c], properties: {a: {type: integer}, b: {type: integer, maximum: 9}, c: {type: integer, minimum: 3}}", "self.c <= self.a || self.b + self.c < 500"},
		{"type: object, maxProperties: 5, additionalProperties: {type: string, maxLength: 9}", "self.all(k, k.startsWith('x-') || self[k].lowerAscii() != 'on')"},
		{"type: string, format: date-time", "self.getFullYear() < 2030"},
		{"type: string, format: ipv4", "!ip(self).isLoopback()"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			old := parseSchema(t, "{type: object, properties: {spec: {"+c.schema+"}}}")
			new := parseSchema(t, "{type: object, properties: {spec: {"+c.schema+`, x-kubernetes-validations: [{rule: "`+c.rule+`"}]}}}`)
			r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
			if r.Verdict != NotContained || len(r.Gaps) != 1 || r.Gaps[0].OddAlone {
				t.Errorf("verdict %v, gaps %v", r.Verdict, told(r.Gaps))
			}
		})
	}
}
