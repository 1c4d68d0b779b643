package regular

import (
	"regexp/syntax"
)

// minSymbolic is the count from which a repetition of one rune is worth treating as a length.
const minSymbolic = 12

// asLength recognises patterns that consist of a counted repetition of one class of runes between ^ and $, such as ^[a-z0-9-]{1,63}$.
// Such a pattern matches the strings over the class whose length is within the count. asLength returns a pattern for the class and the
// bounds of the length. Comparing lengths is cheap, whereas an automaton needs a state for each number up to the count.
func asLength(re *syntax.Regexp) (star *syntax.Regexp, least, most int64, ok bool) {
	re = uncaptured(re)
	if re.Op != syntax.OpConcat || len(re.Sub) != 3 {
		return nil, 0, 0, false
	}
	first, middle, last := uncaptured(re.Sub[0]), uncaptured(re.Sub[1]), uncaptured(re.Sub[2])
	if first.Op != syntax.OpBeginText || last.Op != syntax.OpEndText || middle.Op != syntax.OpRepeat {
		return nil, 0, 0, false
	}
	if max(middle.Min, middle.Max) < minSymbolic {
		return nil, 0, 0, false
	}
	one := uncaptured(middle.Sub[0])
	isClass := one.Op == syntax.OpCharClass || one.Op == syntax.OpAnyChar || one.Op == syntax.OpAnyCharNotNL
	if !isClass && (one.Op != syntax.OpLiteral || len(one.Rune) != 1) {
		return nil, 0, 0, false
	}
	loop := &syntax.Regexp{Op: syntax.OpStar, Sub: []*syntax.Regexp{one}}
	star = &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{first, loop, last}}
	return star, int64(middle.Min), int64(middle.Max), true
}

// uncaptured returns what a group captures; the parser bounds how deep groups nest.
func uncaptured(re *syntax.Regexp) *syntax.Regexp {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	return re
}
