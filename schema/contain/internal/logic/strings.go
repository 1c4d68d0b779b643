package logic

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

func (s *Solver) solveString(st *state, want int) ([]any, bool) {
	match, avoid := st.matchAndAvoid()
	excluded, refused := 0, false
	var samples []string
	positive := false
	for _, e := range st.enums {
		excluded += len(e.Values)
	}
	for _, f := range st.formats {
		if f.Neg {
			refused = true
			continue
		}
		positive = true
		samples = append(samples, s.Strings.Samples(f.Name)...)
	}
	if positive {
		if out := s.keepUnrefused(st, stringValues(samples), want); len(out) > 0 {
			return out, false
		}
	}
	var out []any
	first := want + 8
	if st.length.Min > longString {
		first = 1
	}
	for n := first; ; n *= 8 { // more if the first ones are all excluded
		found, none := s.Strings.Members(&s.work, match, avoid, st.length, min(n, want+excluded+8))
		if none {
			return nil, true
		}
		s.chargeStep(bytesOf(found) / bytesMade)
		enough := len(found) < n || n >= want+excluded+8
		if refused || positive {
			found = append(found, notOfAnyFormat...)
		}
		if out = s.keepUnrefused(st, stringValues(found), want); len(out) > 0 || enough || s.workSpent() {
			break
		}
	}
	if words := excludedWords(st.enums); len(out) == 0 && words != "" {
		found, none := s.Strings.Members(&s.work, match, append(avoid, words), st.length, want)
		if none {
			return nil, true
		}
		s.chargeStep(bytesOf(found) / bytesMade)
		out = s.keepUnrefused(st, stringValues(found), want)
	}
	switch {
	case len(out) > 0:
	case s.work.Left() == 0: // the search for strings keeps to the rest of the budget
		s.recordReason(Spent)
	default:
		s.recordReason("no string found for the patterns and formats")
	}
	return out, false
}

// longString is the length of strings that are made one at a time.
const longString = 1 << 14

// bytesMade is the number of bytes of strings that a unit of work pays to make: they stay in memory.
const bytesMade = 128

func bytesOf(ss []string) int64 {
	n := 0
	for _, s := range ss {
		n += len(s)
	}
	return int64(n)
}

// matchAndAvoid returns the patterns that a string must match, and those that it must not.
func (st *state) matchAndAvoid() (match, avoid []string) {
	for _, p := range st.patterns {
		if p.Neg {
			avoid = append(avoid, p.Expr)
		} else {
			match = append(match, p.Expr)
		}
	}
	return match, avoid
}

// excludedWords is an expression for the strings that the enums exclude, "" if there are none or too many. No other value equals a
// string.
func excludedWords(enums []Enum) string {
	var words []string
	size := 0
	for _, e := range enums {
		for _, v := range e.Values {
			if w, ok := v.(string); ok && e.Neg && utf8.ValidString(w) {
				words = append(words, regexp.QuoteMeta(w))
				size += len(w)
			}
		}
	}
	if len(words) == 0 || size > maxExcluded {
		return ""
	}
	return `\A(?:` + strings.Join(words, "|") + `)\z`
}

// maxExcluded bounds the length of what is excluded in one expression.
const maxExcluded = 4096

// notOfAnyFormat are strings that few formats accept, for values that must not have a format.
var notOfAnyFormat = []string{"a", "-", "!", "not valid", "é", "a b", "0"}

func stringValues(ss []string) []any {
	out := make([]any, len(ss))
	for i, s := range ss {
		out[i] = s
	}
	return out
}
