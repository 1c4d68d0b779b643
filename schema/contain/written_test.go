package contain

import (
	"testing"

	"sluice.dev/schema/upstream"
)

// Storage and clients write 1.0 as 1. What refuses such numbers alone is told apart, and hides nothing else.
func TestNumbersThatNobodyWrites(t *testing.T) {
	for _, c := range []struct {
		name        string
		old, new    string
		floatsAlone bool
		witness     Witness // its flags
	}{
		{
			"a rule says what the schema says",
			"type: integer, maximum: 5", "type: integer, maximum: 5, x-kubernetes-validations: [{rule: self <= 5}]",
			true, Witness{WritersOnly: true},
		},
		{
			"a rule that is always true",
			"type: integer", "type: integer, x-kubernetes-validations: [{rule: self < 5 || self >= 5}]",
			true, Witness{WritersOnly: true},
		},
		{
			"a rule that integers break",
			"type: integer", "type: integer, x-kubernetes-validations: [{rule: self <= 5}]",
			false, Witness{Ratcheted: true},
		},
		{
			"a rule over two integers that the bounds of one leave open",
			"type: object, required: [a, b], properties: {a: {type: integer}, b: {type: integer}}",
			"type: object, required: [a, b], properties: {a: {type: integer}, b: {type: integer}}, x-kubernetes-validations: [{rule: self.a <= self.b}]",
			false, Witness{Ratcheted: true},
		},
		{
			"a number becomes an integer",
			"type: number", "type: integer", false, Witness{Ratcheted: true},
		},
		{
			"a number gets a bound that a whole number breaks",
			"type: number", "type: number, maximum: 5", false, Witness{Ratcheted: true},
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
			if g.FloatsAlone != c.floatsAlone {
				t.Errorf("floats alone: %v, want %v: %v", g.FloatsAlone, c.floatsAlone, w.Object)
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
	if len(r.Gaps) != 1 || !r.Gaps[0].FloatsAlone {
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
