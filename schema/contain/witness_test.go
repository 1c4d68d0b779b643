package contain

import (
	"strings"
	"testing"
)

func TestTransitionsOfContainers(t *testing.T) {
	for _, value := range []string{
		`type: array, minItems: 1, maxItems: 8, items: {type: object, required: [a], properties: {a: {type: string, minLength: 1}}}`,
		`type: array, minItems: 2, maxItems: 2, items: {type: string, enum: [x, z]}`,
		`type: object, maxProperties: 8, additionalProperties: {type: string}`,
		`type: object, minProperties: 1, maxProperties: 1, additionalProperties: {type: array, maxItems: 3, items: {type: integer}}`,
		`type: object, required: [a], properties: {a: {type: object, required: [b], properties: {b: {type: array, maxItems: 2, items: {type: boolean}}}}}`,
	} {
		old := parseSchema(t, `{type: object, properties: {spec: {`+value+`}}}`)
		new := parseSchema(t, `{type: object, properties: {spec: {`+value+`, x-kubernetes-validations: [{rule: self == oldSelf, message: immutable}]}}}`)
		r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
		if r.Verdict != NotContained || len(r.Gaps) != 1 || r.Gaps[0].Harm != RefusedTransition {
			t.Errorf("%s: verdict %v: %+v", value, r.Verdict, r.Gaps)
		}
	}
}

func TestWitnessIsRefusedByTheRuleItself(t *testing.T) {
	old := parseSchema(t, `{type: object, properties: {spec: {type: string, maxLength: 9}}}`)
	new := parseSchema(t, `{type: object, properties: {spec: {type: string, maxLength: 9, x-kubernetes-validations: [
		{rule: self != 'a', message: not a}, {rule: "!self.startsWith('c')", message: no c}, {rule: self.size() < 8}]}}}`)
	r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
	want := map[string]string{"self != 'a'": "not a", "!self.startsWith('c')": "no c", "self.size() < 8": "failed rule: self.size() < 8"}
	for _, g := range r.Gaps {
		if g.Witness == nil || len(g.Witness.Errors) != 1 || !strings.Contains(g.Witness.Errors[0], want[g.Detail]) {
			t.Errorf("rule %s: witness %+v", g.Detail, g.Witness)
		}
		delete(want, g.Detail)
	}
	if len(want) > 0 {
		t.Errorf("no gaps for %v: %+v", want, r.Gaps)
	}
}
