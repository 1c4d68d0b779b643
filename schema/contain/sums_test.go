package contain

import (
	"fmt"
	"strings"
	"testing"
)

// A sum of parts that the schema bounds needs no search: 16 lists of 8 have 128 items at most.
func TestSumsOfBoundedParts(t *testing.T) {
	indexed := func(n int, is string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf("(self.size() > %d ? self[%[1]d].m.size() : 0)", i)
		}
		return strings.Join(parts, " + ") + is
	}
	const list = `{type: object, properties: {l: {type: array, maxItems: 16, items: {type: object, required: [m], properties: {m: {type: array, maxItems: 8, items: {type: string}}}}%s}}}`
	of := func(rule string) Side {
		return side(t, parseSchema(t, strings.Replace(list, "%s", rule, 1)))
	}
	old := of("")
	for rule, want := range map[string]Verdict{
		indexed(16, " <= 128"):                    Contained,
		indexed(16, " < 129"):                     Contained,
		indexed(16, " < 128"):                     NotContained,
		indexed(17, " <= 128"):                    Unknown,
		"128 >= self.map(x, x.m.size()).sum()":    Contained,
		"self.map(x, x.m.size()).sum() <= 127":    NotContained,
		"self.map(x, x.m.size()).sum() <= 1000":   Contained,
		"self.map(x, x.m.size() - 9).sum() <= 0":  Unknown, // a part below 0 is not looked at
		"self.map(x, x.m.size() + 1).sum() < 144": NotContained,
	} {
		r := Decide(t.Context(), old, of(`, x-kubernetes-validations: [{rule: "`+rule+`"}]`), Options{Namespaced: true})
		if r.Verdict != want {
			t.Errorf("%.70s: %v, want %v: %v", rule, r.Verdict, want, told(r.Gaps))
		}
	}
}
