package feature

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// pattern is a regular expression with a text that is in every string with a match. Looking for the text first is ten times as fast as
// running the expression, and most strings do not have it.
type pattern struct {
	re      *regexp.Regexp
	literal string // empty for none
}

func newPattern(re *regexp.Regexp) *pattern { return &pattern{re, LiteralIn(re.String())} }

// LiteralIn returns a text that every match of a pattern has in it: the longest of those that the pattern has at its top level. It is empty
// if there is none, or if the pattern cannot be parsed.
func LiteralIn(pattern string) (literal string) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	tree = tree.Simplify()
	parts := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpConcat {
		parts = tree.Sub
	}
	for _, s := range parts {
		if text := string(s.Rune); s.Op == syntax.OpLiteral && s.Flags&syntax.FoldCase == 0 && len(text) > len(literal) {
			literal = text
		}
	}
	return literal
}

// matchesIn reports whether there is a match in s.
func (p *pattern) matchesIn(s string) bool {
	return strings.Contains(s, p.literal) && p.re.MatchString(s)
}
