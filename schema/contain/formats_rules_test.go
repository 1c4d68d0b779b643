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

// The length of a string is bounded beside its format: few formats accept the empty string, and some have long ones.
func TestLengthsOfStringsOfAFormat(t *testing.T) {
	for _, c := range []struct {
		format, bound string
		want          Verdict
	}{
		{"byte", "minLength: 1", Contained},
		{"uri", "minLength: 1", Contained},
		{"password", "minLength: 1", NotContained},
		{"byte", "maxLength: 51200", NotContained},
		{"uri", "maxLength: 2048", NotContained},
		{"email", "maxLength: 60", NotContained},
		{"hostname", "maxLength: 200", NotContained},
		{"duration", "maxLength: 70", NotContained},
		{"date-time", "maxLength: 99", NotContained},
	} {
		of := func(more string) Side {
			return side(t, parseSchema(t, "{type: object, properties: {x: {type: string, format: "+c.format+more+"}}}"))
		}
		if got := Decide(t.Context(), of(""), of(", "+c.bound), Options{Namespaced: true}); got.Verdict != c.want {
			t.Errorf("%s of format %s: %v, want %v: %v", c.bound, c.format, got.Verdict, c.want, told(got.Gaps))
		}
	}
}
