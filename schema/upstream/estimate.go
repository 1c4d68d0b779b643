package upstream

import (
	"cmp"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// How long does the API server's code take for a part of a schema? For example, to compile a rule takes 80 microseconds, and more for each byte. The
// figures were measured.

// The measured time of the API server's code for parts of a schema, in microseconds of one core. Validation rules take nearly all of
// it: their compilation grows with the square of their length, and each place with rules needs the types of everything below it.
const (
	workNode      = 10
	workPattern   = 30  // plus a quarter for each byte, and a sixteenth for each byte that a count repeats
	workDefault   = 50  // plus one for each byte, two for each node below, and two for each value and each branch below
	workPlace     = 700 // with rules, plus two for each node below
	workRule      = 80
	workRuleByte  = 6
	workRuleBytes = 150 // the square of the length by this
)

// patternWork is the work of compiling a pattern.
func patternWork(pattern string) float64 {
	return workPattern + float64(len(pattern))/4 + float64(len(pattern)*patternCopies(pattern))/16
}

// patternCopies is how many copies the counts of a pattern make, such as {0,300}. Go's library allows 1,000 in all.
func patternCopies(pattern string) int {
	copies := 0
	for _, part := range strings.Split(pattern, "{")[1:] {
		count, _, _ := strings.Cut(part, "}")
		_, most, _ := strings.Cut(count, ",")
		n, _ := strconv.Atoi(cmp.Or(most, strings.TrimSuffix(count, ",")))
		copies = min(copies+n, 1000)
	}
	return copies
}

// rulesWork is the work of compiling the rules of one place, without that for what is below it.
func rulesWork(rules apiextensionsv1.ValidationRules) int64 {
	total := int64(workPlace)
	for i := range rules {
		for _, text := range []string{rules[i].Rule, rules[i].MessageExpression} {
			if n := int64(len(text)); n > 0 {
				total += workRule + n*workRuleByte + n*n/workRuleBytes
			}
		}
	}
	return total
}
