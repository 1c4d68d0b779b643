package contain

import (
	"strings"
	"testing"
)

// What is unknown names the part of the rule that is in the way, as it is written, and what would help.
func TestUnknownNamesThePart(t *testing.T) {
	const spec = "{type: object, properties: {spec: {type: object, properties: {a: {type: integer, minimum: 0, maximum: 9000}, l: {type: array, maxItems: 4, items: {type: object, required: [f], properties: {f: {type: array, maxItems: 4, items: {type: string, maxLength: 5}%s}}}%r}}%u}}}"
	for _, c := range []struct{ name, old, new, part string }{
		{"of a new rule", "", "!has(self.a) || self.a * self.a != 61042969", `self.a * self.a != 61042969 in the rule "`},
		{"of an old rule", "!has(self.a) || self.a * self.a != 61042969", "!has(self.a) || self.a != 7813", `self.a * self.a != 61042969 in the rule "!has(self.a) || self.a * self.a`},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := func(rule string) Side {
				if rule != "" {
					rule = `, x-kubernetes-validations: [{rule: "` + rule + `"}]`
				}
				return side(t, parseSchema(t, strings.NewReplacer("%s", "", "%r", "", "%u", rule).Replace(spec)))
			}
			r := Decide(t.Context(), of(c.old), of(c.new), Options{Namespaced: true})
			if r.Verdict != Unknown || len(r.Gaps) != 1 {
				t.Fatalf("%v: %v", r.Verdict, told(r.Gaps))
			}
			if got := r.Gaps[0].Reason; !strings.Contains(got, "the search does not see through "+c.part) || !strings.Contains(got, "stored objects of a cluster") {
				t.Errorf("%q", got)
			}
		})
	}
}
