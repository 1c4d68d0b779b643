package regular

// What does a pattern demand of each next character? For example, after ab the pattern ^a+b is done, and ^a+c can no longer match. The
// instructions are those of Go's own compiler of regular expressions, so that they mean what the API server's do.

import (
	"errors"
	"regexp/syntax"
	"slices"
	"unicode"
)

// ErrTooLarge is the error of [Compile] for a pattern with more than [maxInstructions].
var ErrTooLarge = errors.New("the pattern is too large to be compared")

// maxInstructions bounds a compiled pattern. It is below the surrogates, so that an instruction can be written as a rune.
const maxInstructions = 20_000

// Pattern is a regular expression as the API server reads it: it accepts the strings in which regexp.MatchString finds a match
// (k8s.io/kube-openapi, pkg/validation/validate, function Pattern).
type Pattern struct {
	prog *syntax.Prog
	// fromStart is true if a match can begin at the start of the text only.
	fromStart bool
	// asserts has each assertion of the pattern.
	asserts syntax.EmptyOp
	// cuts are the runes before which its sets of runes begin or end.
	cuts []rune
}

// Compile parses an expression with the calls that regexp.Compile makes. The error is that of the parser, or [ErrTooLarge].
func Compile(expr string) (*Pattern, error) {
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxInstructions {
		return nil, ErrTooLarge
	}
	p := &Pattern{prog: prog, fromStart: prog.StartCond()&syntax.EmptyBeginText != 0}
	for i := range prog.Inst {
		if prog.Inst[i].Op == syntax.InstEmptyWidth {
			p.asserts |= syntax.EmptyOp(prog.Inst[i].Arg) //nolint:gosec // eight bits by its definition
		}
		p.cuts = append(p.cuts, cutsOf(prog.Inst[i].Rune)...)
	}
	slices.Sort(p.cuts)
	p.cuts = slices.Compact(p.cuts)
	return p, nil
}

// threads is the set of instructions at which a match may go on, each written as a rune, in order. matched stands for a match that was
// found: the rest of the text does not matter.
type threads string

const matched threads = "\U0010FFFF"

// noText stands for the missing rune before the start and after the end of a text.
const noText rune = -1

// scratch is memory that calls use again.
type scratch struct {
	seen  []uint64
	work  []uint32
	runes []rune
	steps int // the instructions that were visited
}

// unseen returns a cleared set of so many words.
func (u *scratch) unseen(words int) []uint64 {
	if len(u.seen) < words {
		u.seen = make([]uint64, words)
	}
	clear(u.seen[:words])
	return u.seen[:words]
}

// beforeRune follows the instructions that take no rune, between the runes last and next. It returns the instructions that take
// a rune, or true if a match is found.
func (p *Pattern) beforeRune(from threads, last, next rune, use *scratch) (takesRune []uint32, found bool) {
	if from == matched {
		return nil, true
	}
	flags := syntax.EmptyOpContext(last, next)
	seen, work := use.unseen(len(p.prog.Inst)/64+1), use.work[:0]
	visit := func(pc uint32) {
		if seen[pc/64]&(1<<(pc%64)) == 0 {
			seen[pc/64] |= 1 << (pc % 64)
			work = append(work, pc)
		}
	}
	for _, pc := range from {
		visit(uint32(pc)) //nolint:gosec // written by afterRune
	}
	if last == noText || !p.fromStart {
		visit(uint32(p.prog.Start)) //nolint:gosec // an index
	}
	use.steps += len(seen)/8 + 1
	for len(work) > 0 && !found {
		pc := work[len(work)-1]
		work = work[:len(work)-1]
		use.steps++
		switch inst := &p.prog.Inst[pc]; inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(inst.Out)
			visit(inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			visit(inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^flags == 0 { //nolint:gosec // eight bits by its definition
				visit(inst.Out)
			}
		case syntax.InstMatch:
			found = true
		case syntax.InstFail:
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			takesRune = append(takesRune, pc)
		}
	}
	use.work = work
	return takesRune, found
}

// afterRune returns where the instructions lead that take the rune.
func (p *Pattern) afterRune(takesRune []uint32, r rune, use *scratch) threads {
	out := use.runes[:0]
	for _, pc := range takesRune {
		if inst := &p.prog.Inst[pc]; inst.MatchRune(r) {
			out = append(out, rune(inst.Out)) //nolint:gosec // at most maxInstructions
		}
	}
	slices.Sort(out)
	use.runes = out
	return threads(slices.Compact(out))
}

// cutsOf returns the runes before which a set of an instruction begins or ends. A single rune also stands for those that fold to it.
func cutsOf(ranges []rune) (cuts []rune) {
	if len(ranges) == 1 {
		cuts = append(cuts, ranges[0], ranges[0]+1)
		for f := unicode.SimpleFold(ranges[0]); f != ranges[0]; f = unicode.SimpleFold(f) {
			cuts = append(cuts, f, f+1)
		}
		return cuts
	}
	for i, r := range ranges {
		cuts = append(cuts, r+rune(i%2))
	}
	return cuts
}

// alphabetOf returns a rune of each set of runes that the patterns do not tell apart. Those that read best come first.
func alphabetOf(patterns []*Pattern) (alphabet []rune) {
	// Assertions know newlines and word characters.
	cuts := []rune{0, '\n', '\n' + 1, '0', '9' + 1, 'A', 'Z' + 1, '_', '_' + 1, 'a', 'z' + 1, surrogateMin, surrogateMax + 1, unicode.MaxRune + 1}
	for _, p := range patterns {
		cuts = append(cuts, p.cuts...)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for i, r := range cuts[:len(cuts)-1] {
		if r < surrogateMin || r > surrogateMax {
			alphabet = append(alphabet, mostReadable(r, cuts[i+1]-1))
		}
	}
	slices.SortStableFunc(alphabet, func(a, b rune) int { return readingCost(a) - readingCost(b) })
	return alphabet
}

const (
	surrogateMin = 0xD800
	surrogateMax = 0xDFFF
)

// mostReadable returns a rune from first to last that reads well in an example.
func mostReadable(first, last rune) rune {
	best := first
	for r := first; r <= min(last, unicode.MaxASCII); r++ {
		if readingCost(r) < readingCost(best) {
			best = r
		}
	}
	return best
}

// readingCost is higher for runes that read worse in an example.
func readingCost(r rune) int {
	switch {
	case 'a' <= r && r <= 'z':
		return 0
	case '0' <= r && r <= '9':
		return 1
	case 'A' <= r && r <= 'Z':
		return 2
	case r == '-' || r == '.':
		return 3
	case ' ' < r && r <= '~':
		return 4
	case r == ' ':
		return 5
	case unicode.IsLetter(r):
		return 6
	case unicode.IsPrint(r):
		return 7
	}
	return 8
}
