package logic

// Which string matches some patterns and formats and avoids others? The automata of package regular find strings for patterns; for formats
// there are samples, and patterns that all strings of a format match. For example, no string has the pattern / and the format ipv4; for the
// pattern ^9{4}[.] and that format it finds nothing, but has no proof.

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// solveString tries samples of formats, then strings that fit the patterns. If an enum excludes all that were found, it asks for strings that
// are none of the excluded words either.
func (s *Solver) solveString(st *state, want int) ([]any, bool) {
	excluded := 0
	for _, e := range st.enums {
		excluded += len(e.Values)
	}
	if out := s.keepUnrefused(st, stringValues(s.samplesOf(st.formats)), want); len(out) > 0 {
		return out, false
	}
	out, none := s.membersAndOthers(st, want, excluded)
	if words := excludedWords(st.enums); len(out) == 0 && !none && words != "" {
		match, avoid := s.matchAndAvoid(st)
		var found []string
		if found, none = s.Strings.Members(&s.work, match, append(avoid, words), st.length, want); !none {
			s.chargeStep(bytesOf(found) / bytesMade)
			out = s.keepUnrefused(st, stringValues(found), want)
		}
	}
	if long := s.longOf(st.formats); len(out) == 0 && !none && len(long) > 0 { // the samples may be too short
		match, avoid := s.matchAndAvoid(st)
		found, _ := s.Strings.Members(&s.work, append(match, long...), avoid, st.length, 1)
		s.chargeStep(bytesOf(found) / bytesMade)
		out = s.keepUnrefused(st, stringValues(found), want)
	}
	switch {
	case none || len(out) > 0:
	case s.work.Left() == 0: // the search for strings keeps to the rest of the budget
		s.recordReason(Spent)
	default:
		s.recordReason("no string found for the patterns and formats")
	}
	return out, none
}

// samplesOf are strings of the formats that a string must have.
func (s *Solver) samplesOf(formats []Format) (samples []string) {
	for _, f := range formats {
		if !f.Neg {
			samples = append(samples, s.Strings.Samples(f.Name)...)
		}
	}
	return samples
}

// longOf are patterns of long strings of the formats that a string must have.
func (s *Solver) longOf(formats []Format) (patterns []string) {
	for _, f := range formats {
		if long := s.Strings.Long(f.Name); long != "" && !f.Neg {
			patterns = append(patterns, long)
		}
	}
	return patterns
}

// membersAndOthers returns strings that fit the patterns, and more if the first ones are all excluded. Where a format says something, it
// also tries strings that few formats accept. none is a proof that no string fits the patterns.
func (s *Solver) membersAndOthers(st *state, want, excluded int) (out []any, none bool) {
	match, avoid := s.matchAndAvoid(st)
	most := want + excluded + 8
	n := want + 8
	if st.length.Min > longString {
		n = 1
	}
	for ; ; n *= 8 {
		found, none := s.Strings.Members(&s.work, match, avoid, st.length, min(n, most))
		if none {
			return nil, true
		}
		s.chargeStep(bytesOf(found) / bytesMade)
		enough := len(found) < n || n >= most
		if len(st.formats) > 0 {
			found = append(found, notOfAnyFormat...)
		}
		if out = s.keepUnrefused(st, stringValues(found), want); len(out) > 0 || enough || s.workSpent() {
			return out, false
		}
	}
}

// longString is the length of strings that are made one at a time.
const longString = 1 << 14

// bytesMade is the number of bytes of strings that a unit of work pays to make: they stay in memory.
const bytesMade = 128

// bytesOf is the length of all strings together, in bytes.
func bytesOf(ss []string) int64 {
	n := 0
	for _, s := range ss {
		n += len(s)
	}
	return int64(n)
}

// matchAndAvoid returns the patterns that a string must match, with the shapes of its formats, and those that it must not.
func (s *Solver) matchAndAvoid(st *state) (match, avoid []string) {
	for _, f := range st.formats {
		if shape := s.Strings.Shape(f.Name); shape != "" && !f.Neg {
			match = append(match, shape)
		}
	}
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

// stringValues returns the strings as JSON values.
func stringValues(ss []string) []any {
	out := make([]any, len(ss))
	for i, s := range ss {
		out[i] = s
	}
	return out
}
