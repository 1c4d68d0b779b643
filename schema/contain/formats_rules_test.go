package contain

import "testing"

// A text that its format takes and CEL cannot read makes every rule that looks at it refuse the object.
func TestTextsThatCELCannotRead(t *testing.T) {
	for _, c := range []struct {
		format, value string
		odd           bool
	}{
		{"date-time", "2020-01-01t00:00:00z", true},
		{"byte", "+/+/", false},
	} {
		field := "{type: object, properties: {spec: {type: object, required: [x], properties: {x: {type: string, format: " + c.format + "}}"
		old, new := parseSchema(t, field+"}}}"), parseSchema(t, field+", x-kubernetes-validations: [{rule: has(self.x)}]}}}")
		obj := resource(t, `{"spec": {"x": "`+c.value+`"}}`)
		if ok, why := fine(t, validator(t, old), obj); !ok {
			t.Fatalf("%s: the old schema refuses it: %s", c.value, why)
		}
		if ok, _ := fine(t, validator(t, new), obj); ok {
			t.Fatalf("%s: the new schema accepts it", c.value)
		}
		r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
		if r.Verdict != NotContained || len(r.Gaps) != 1 || r.Gaps[0].OddAlone != c.odd {
			t.Errorf("%s: %v, want one gap that concerns odd values alone: %v: %+v", c.format, r.Verdict, c.odd, r.Gaps)
		}
	}
}
