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
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return p
	}
	tree = tree.Simplify()
	parts := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpConcat {
		parts = tree.Sub
	}
	for i, s := range parts {
		if s.Op != syntax.OpLiteral || s.Flags&syntax.FoldCase != 0 {
			continue
		}
		if text := string(s.Rune); len(text) > len(p.literal) {
			p.literal = text
			p.prefix = i == 1 && parts[0].Op == syntax.OpBeginText
		}
	}
	return p
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
