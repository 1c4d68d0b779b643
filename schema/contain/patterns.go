package contain

// Which strings match some patterns and avoid others? For example, x1 matches ^x and avoids ^x$.

import (
	"slices"
	"strings"

	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/schema/contain/internal/regular"
)

// compiledPattern returns the compiled expression, nil if it does not compile or is too large.
func (l *library) compiledPattern(expr string) *regular.Pattern {
	p, ok := l.patterns[expr]
	if !ok {
		p, _ = regular.Compile(expr)
		l.patterns[expr] = p
	}
	return p
}

// readable are the strings that are tried before others are generated.
var readable = []string{"a", "b", "example", "c", "1", "example.com", "A", "a-b", "0", "d", "1Gi", "1h", "https://example.com", "e", ""}

// Members implements [logic.Strings].
func (l *library) Members(w *logic.Work, match, avoid []string, length logic.Length, n int) ([]string, bool) {
	m := &membersOf{l, w, match, avoid, length}
	out := m.simpleMembers(n)
	if len(out) >= min(n, enough) {
		return out, false
	}
	if w.Spent() {
		return nil, false
	}
	question, possible := m.regularQuestion()
	if !possible {
		return nil, true
	}
	found, none := question.Strings(n)
	if len(out) == 0 && none {
		return nil, true
	}
	for _, s := range found {
		if len(out) < n && !slices.Contains(out, s) && m.fitsAll(s) {
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

// fitsAll reports whether a string matches all expressions, none of those to avoid, and has a permitted number of
// code points. The API server's own regular expressions decide that. Each match is charged by the lengths of both
// texts.
func (m *membersOf) fitsAll(s string) bool {
	for _, e := range m.match {
		m.w.Charge(matchingWork(e, s))
	}
	for _, e := range m.avoid {
		m.w.Charge(matchingWork(e, s))
	}
	runes := int64(len([]rune(s)))
	return runes >= m.length.Min && runes <= m.length.Max &&
		!slices.ContainsFunc(m.match, func(e string) bool { return !m.l.MatchPattern(e, s) }) &&
		!slices.ContainsFunc(m.avoid, func(e string) bool { return m.l.MatchPattern(e, s) })
}

// simpleMembers returns strings that need no automaton.
func (m *membersOf) simpleMembers(n int) (out []string) {
	for _, s := range readable {
		if len(out) < n && m.fitsAll(s) {
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

// regularQuestion asks for the strings. It returns false if there are none: an expression does not compile, or is to match and not to match. An expression that is
// too large is left out: then there are only more strings, and what is found has to fit.
func (m *membersOf) regularQuestion() (q *regular.Question, possible bool) {
	limit := min(m.w.Left(), maxStringWork)
	q = &regular.Question{Least: m.length.Min, Most: m.length.Max}
	steps := 0
	q.Charge = func(n int) bool {
		steps += n
		work := int64(steps / stepsInUnit)
		steps %= stepsInUnit
		limit -= work
		return m.w.Charge(work) && limit > 0
	}
	for _, e := range m.match {
		m.w.Charge(int64(len(e)))
		p := m.l.compiledPattern(e)
		switch {
		case p != nil:
			q.Match = append(q.Match, p)
		case m.l.compiledRegexp(e) == nil:
			return nil, false
		}
	}
	for _, e := range m.avoid {
		m.w.Charge(int64(len(e)))
		if slices.Contains(m.match, e) {
			return nil, false
		}
		if p := m.l.compiledPattern(e); p != nil {
			q.Avoid = append(q.Avoid, p)
		}
	}
	return q, true
}

// stepsInUnit is the number of steps of a search for strings in a unit of work. maxStringWork bounds the units of one search.
const (
	stepsInUnit   = 50
	maxStringWork = 80_000
)

// matchingWork is the work of looking for an expression in a string.
func matchingWork(expr, s string) int64 { return int64(1 + len(expr)/16 + len(s)/16) }

// enough bounds the strings of a search.
const enough = 4
