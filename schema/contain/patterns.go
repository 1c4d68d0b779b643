package contain

import (
	"slices"
	"strings"

	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/schema/contain/internal/regular"
)

// language returns the compiled expression, nil if it does not compile.
func (l *library) language(expr string) *regular.Lang {
	lang, ok := l.languages[expr]
	if !ok {
		lang, _ = regular.Compile(expr)
		l.languages[expr] = lang
	}
	return lang
}

// readable are the strings that are tried before others are generated.
var readable = []string{"a", "b", "example", "c", "1", "example.com", "A", "a-b", "0", "d", "1Gi", "1h", "https://example.com", "e", ""}

// Members implements [logic.Strings].
func (l *library) Members(w *logic.Work, match, avoid []string, length logic.Length, n int) ([]string, bool) {
	fits := func(s string) bool {
		for _, e := range match {
			w.Charge(matching(e, s))
		}
		for _, e := range avoid {
			w.Charge(matching(e, s))
		}
		runes := int64(len([]rune(s)))
		return runes >= length.Min && runes <= length.Max &&
			!slices.ContainsFunc(match, func(e string) bool { return !l.MatchPattern(e, s) }) &&
			!slices.ContainsFunc(avoid, func(e string) bool { return l.MatchPattern(e, s) })
	}
	var out []string
	for _, s := range readable {
		if len(out) < n && fits(s) {
			out = append(out, s)
		}
	}
	if len(match)+len(avoid) == 0 && len(out) < n { // any letters do
		for i := length.Min; i <= min(length.Max, length.Min+8) && len(out) < n; i++ {
			for _, letter := range "abcdefgh" {
				if s := strings.Repeat(string(letter), int(i)); len(out) < n && !slices.Contains(out, s) {
					out = append(out, s)
				}
			}
		}
	}
	if len(out) >= min(n, enough) {
		return out, false
	}
	var spent regular.Spent
	charge := func() {
		w.Charge(int64(spent.Steps/stepsInUnit + spent.States/statesInUnit))
		spent = regular.Spent{}
	}
	defer charge()
	budget := func() regular.Budget { // the rest of the budget, up to the default
		charge()
		left := max(1, min(w.Left(), regular.DefaultSteps/stepsInUnit))
		return regular.Budget{Steps: int(left * stepsInUnit), States: int(min(left*statesInUnit, regular.DefaultStates)), Total: &spent}
	}
	if w.Spent() {
		return nil, false
	}
	lang := regular.LengthBetween(length.Min, length.Max)
	for _, e := range match {
		w.Charge(int64(len(e)))
		c := l.language(e)
		switch {
		case c == nil && l.regexp(e) == nil:
			return nil, true // an expression that does not compile refuses every string
		case c == nil:
			continue // too large for an automaton: without it there are only more strings
		}
		lang = regular.Intersect(lang, c)
	}
	for _, e := range avoid {
		w.Charge(int64(len(e)))
		if c := l.language(e); c != nil {
			lang = regular.Intersect(lang, regular.Complement(c))
		}
	}
	if len(out) == 0 {
		answer := regular.Empty(lang, budget())
		switch answer.Verdict {
		case regular.Proved:
			return nil, true
		case regular.Refuted:
			out = append(out, answer.Witness)
		case regular.Unknown:
			return nil, false
		}
	}
	have := map[string]bool{}
	for _, s := range out {
		have[s] = true
	}
	for _, s := range regular.Members(lang, n, budget()) {
		if len(out) < n && !have[s] && fits(s) {
			out = append(out, s)
		}
	}
	return out, false
}

// stepsInUnit is the number of steps of automata in a unit of work, statesInUnit the number of their states, which take memory.
const (
	stepsInUnit  = 50
	statesInUnit = 2
)

// matching is the work of looking for an expression in a string.
func matching(expr, s string) int64 { return int64(1 + len(expr)/16 + len(s)/16) }

// enough bounds the strings of a search.
const enough = 4
