package contain

import (
	"slices"
	"strings"

	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/schema/contain/internal/regular"
)

// language returns the compiled expression, nil where it does not compile.
func (l *library) language(expr string) *regular.Lang {
	lang, ok := l.languages[expr]
	if !ok {
		lang, _ = regular.Compile(expr)
		l.languages[expr] = lang
	}
	return lang
}

// readable are the strings that are tried before any are made up.
var readable = []string{"a", "b", "example", "c", "1", "example.com", "A", "a-b", "0", "d", "1Gi", "1h", "https://example.com", "e", ""}

// Members implements [logic.Strings].
func (l *library) Members(match, avoid []string, length logic.Length, n int) ([]string, bool) {
	fits := func(s string) bool {
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
	lang := regular.LengthBetween(length.Min, length.Max)
	for _, e := range match {
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
		if c := l.language(e); c != nil {
			lang = regular.Intersect(lang, regular.Complement(c))
		}
	}
	if len(out) == 0 {
		answer := regular.Empty(lang, regular.Budget{})
		switch answer.Verdict {
		case regular.Proved:
			return nil, true
		case regular.Refuted:
			out = append(out, answer.Witness)
		case regular.Unknown:
			return nil, false
		}
	}
	for _, s := range regular.Members(lang, n, regular.Budget{}) {
		if len(out) < n && !slices.Contains(out, s) && fits(s) {
			out = append(out, s)
		}
	}
	return out, false
}

// enough is how many strings are plenty for a search.
const enough = 4
