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
	m := &membersOf{l, w, match, avoid, length}
	out := m.simple(n)
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
	lang := m.language()
	if lang == nil {
		return nil, true
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
		if len(out) < n && !have[s] && m.fit(s) {
			out = append(out, s)
		}
	}
	return out, false
}

// membersOf looks for strings that match and avoid expressions.
type membersOf struct {
	l            *library
	w            *logic.Work
	match, avoid []string
	length       logic.Length
}

func (m *membersOf) fit(s string) bool {
	for _, e := range m.match {
		m.w.Charge(matching(e, s))
	}
	for _, e := range m.avoid {
		m.w.Charge(matching(e, s))
	}
	runes := int64(len([]rune(s)))
	return runes >= m.length.Min && runes <= m.length.Max &&
		!slices.ContainsFunc(m.match, func(e string) bool { return !m.l.MatchPattern(e, s) }) &&
		!slices.ContainsFunc(m.avoid, func(e string) bool { return m.l.MatchPattern(e, s) })
}

// simple returns strings that need no automaton.
func (m *membersOf) simple(n int) (out []string) {
	for _, s := range readable {
		if len(out) < n && m.fit(s) {
			out = append(out, s)
		}
	}
	if len(m.match)+len(m.avoid) > 0 {
		return out
	}
	for i := m.length.Min; i <= min(m.length.Max, m.length.Min+8) && len(out) < n; i++ { // any letters do
		for _, letter := range "abcdefgh" {
			if len(out) >= n {
				return out
			}
			if s := strings.Repeat(string(letter), int(i)); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// language returns the automaton of the strings, nil if an expression that does not compile refuses every string.
func (m *membersOf) language() *regular.Lang {
	lang := regular.LengthBetween(m.length.Min, m.length.Max)
	for _, e := range m.match {
		m.w.Charge(int64(len(e)))
		c := m.l.language(e)
		switch {
		case c == nil && m.l.regexp(e) == nil:
			return nil
		case c == nil:
			continue // too large for an automaton: without it there are only more strings
		}
		lang = regular.Intersect(lang, c)
	}
	for _, e := range m.avoid {
		m.w.Charge(int64(len(e)))
		if c := m.l.language(e); c != nil {
			lang = regular.Intersect(lang, regular.Complement(c))
		}
	}
	return lang
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
