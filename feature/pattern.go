package feature

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// pattern is a regular expression. It knows some facts about its matches, which is ten times as fast as running it.
type pattern struct {
	re      *regexp.Regexp
	literal string // is in every string with a match
	prefix  bool   // at its beginning
}

func newPattern(re *regexp.Regexp) *pattern {
	p := &pattern{re: re}
	p.literal, p.prefix = LiteralIn(re.String())
	return p
}

// LiteralIn returns a text that every match of a pattern has in it, or nothing, and whether every string with a match begins with it.
func LiteralIn(pattern string) (literal string, prefix bool) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	tree = tree.Simplify()
	parts := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpConcat {
		parts = tree.Sub
	}
	for i, s := range parts {
		if text := string(s.Rune); s.Op == syntax.OpLiteral && s.Flags&syntax.FoldCase == 0 && len(text) > len(literal) {
			literal, prefix = text, i == 1 && parts[0].Op == syntax.OpBeginText
		}
	}
	return literal, prefix
}

// matchesIn reports whether there is a match in s.
func (p *pattern) matchesIn(s string) bool {
	switch {
	case p.prefix && !strings.HasPrefix(s, p.literal):
		return false
	case !p.prefix && !strings.Contains(s, p.literal):
		return false
	}
	return p.re.MatchString(s)
}
