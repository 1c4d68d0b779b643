package regular

import (
	"errors"
	"fmt"
	"regexp/syntax"
)

// ErrTooLarge is wrapped by the error of Compile for a pattern that regexp accepts, but that is beyond the limits of this package.
// Nothing is known about its set.
var ErrTooLarge = errors.New("the pattern is too large to be analysed")

// Limits of a compiled pattern. The largest patterns of real CRDs have a few
// thousand instructions.
const (
	maxPattern = 256 << 10 // bytes of text
	maxInsts   = 256 << 10 // instructions, with repetitions written out
	maxRanges  = 1 << 19   // ranges of runes in classes
)

// Compile returns the set of strings s for which regexp.MatchString(pattern, s) is
// true.
//
// If pattern is not valid, the error wraps a *syntax.Error of regexp/syntax; Kubernetes takes no
// CRD with such a pattern. If it is valid but too large (more than 256 KiB, or
// as many instructions), the error wraps ErrTooLarge.
func Compile(pattern string) (*Lang, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(pattern), maxPattern)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %w", quote(pattern), err)
	}
	insts, ranges := measure(re)
	if insts > maxInsts {
		return nil, fmt.Errorf("%w: about %d instructions, the limit is %d", ErrTooLarge, insts, maxInsts)
	}
	if ranges > maxRanges {
		return nil, fmt.Errorf("%w: %d ranges of runes, the limit is %d", ErrTooLarge, ranges, maxRanges)
	}
	if star, least, most, ok := asLength(re); ok {
		// No pattern begins with a star, so no other pattern has this key.
		l, err := compile(star, pattern, "*"+pattern)
		if err != nil {
			return nil, err
		}
		return Intersect(l, LengthBetween(least, most)), nil
	}
	return compile(re, pattern, pattern)
}

// compile compiles a tree as regexp.Compile does.
func compile(re *syntax.Regexp, pattern, key string) (*Lang, error) {
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %w", quote(pattern), err)
	}
	return &Lang{kind: kindRegex, source: pattern, key: key, prog: newProgram(prog), size: 1}, nil
}

// measure returns upper bounds for the instructions and ranges of runes of a parsed pattern. The parser bounds the depth of the tree.
func measure(re *syntax.Regexp) (insts, ranges int64) {
	for _, sub := range re.Sub {
		i, r := measure(sub)
		insts, ranges = insts+i, ranges+r
	}
	switch re.Op {
	case syntax.OpLiteral:
		insts += int64(len(re.Rune))
	case syntax.OpCharClass:
		insts++
		ranges += int64(len(re.Rune)) / 2
	case syntax.OpRepeat:
		// x{n,m} becomes m copies of x, x{n,} becomes n and one that loops; the
		// copies share their classes.
		copies := int64(max(re.Min, re.Max)) + 1
		if insts+1 > maxEstimate/(copies+1) {
			return maxEstimate, ranges
		}
		insts = (insts + 1) * copies
	case syntax.OpNoMatch, syntax.OpEmptyMatch, syntax.OpAnyCharNotNL, syntax.OpAnyChar, syntax.OpBeginLine,
		syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary,
		syntax.OpCapture, syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpConcat, syntax.OpAlternate:
		insts += 2 + int64(len(re.Sub))
	}
	return insts, ranges
}

// maxEstimate is the upper limit of estimates, so that their sums do not overflow.
const maxEstimate = 1 << 50
