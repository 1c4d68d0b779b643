package contain

import (
	"fmt"
	"regexp"
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
	optional := regexp.MustCompile(`self\[\d+\]\.m`).ReplaceAllString(indexed(16, " <= 128"), "(has($0) ? $0.size() : 0)")
	optional = strings.ReplaceAll(strings.ReplaceAll(optional, ").size()", ")"), ".m", ".o")
	const list = `{type: object, properties: {l: {type: array, maxItems: 16, items: {type: object, required: [m], properties: {m: {type: array, maxItems: 8, items: {type: string}}, o: {type: array, maxItems: 8, items: {type: string}}}}%s}}}`
	of := func(rule string) Side {
		return side(t, parseSchema(t, strings.Replace(list, "%s", rule, 1)))
	}
	old := of("")
	for rule, want := range map[string]Verdict{
		indexed(16, " <= 128"): Contained,
		indexed(16, " < 129"):  Contained,
		indexed(16, " < 128"):  NotContained,
		indexed(17, " <= 128"): Unknown,
		strings.ReplaceAll(indexed(16, " <= 0"), ".m.size()", ".m.size() - 9"): Unknown, // a part below 0 is not looked at
		"128 >= " + indexed(16, ""): Contained,
		optional:                    Contained,
	} {
		r := Decide(t.Context(), old, of(`, x-kubernetes-validations: [{rule: "`+rule+`"}]`), Options{Namespaced: true})
		if r.Verdict != want {
			t.Errorf("%.70s: %v, want %v: %v", rule, r.Verdict, want, told(r.Gaps))
		}
	}
}
