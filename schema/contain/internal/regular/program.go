package regular

import (
	"regexp/syntax"
	"slices"
	"unicode"
)

// opcode is what an instruction of a program does.
type opcode uint8

const (
	opFail  opcode = iota // nothing can match from here
	opMatch               // the pattern has matched
	opRune                // consume a rune of the set numbered arg, go on at out
	opFork                // go on at out and at arg
	opJump                // go on at out
	opEmpty               // go on at out if the assertions in arg hold
)

type inst struct {
	op   opcode
	out  int32
	arg  int32
	need uint8 // context bits that decide what can be reached without consuming a rune
	ends bool  // opMatch can be reached without consuming a rune
}

// Context bits: what an assertion needs to know about the text before the position.
const (
	atText    = 1 << iota // the position is the beginning of the text
	atLine                // ... or follows a newline
	afterWord             // the preceding rune is a word character
)

// The text after the position.
const (
	nextOther = iota
	nextNewline
	nextWord
	nextEnd
)

// Assertions that the text before the position decides, and those that also need the text after it.
const (
	lookBehind = int32(syntax.EmptyBeginLine | syntax.EmptyBeginText)
	lookAhead  = int32(syntax.EmptyEndLine | syntax.EmptyEndText | syntax.EmptyWordBoundary | syntax.EmptyNoWordBoundary)
	wordEdge   = int32(syntax.EmptyWordBoundary | syntax.EmptyNoWordBoundary)
)

// program is a non-deterministic automaton for the strings in which a pattern matches
// somewhere. It is immutable.
type program struct {
	insts []inst
	first int32
	// restarts reports whether a match can begin after the beginning of the text.
	restarts bool

	alpha *alphabet
	sets  [][]rune
	in    []bool  // in[set*alpha.n+class], or nil when that would be too large
	rep   []rune  // a rune of each class
	next  []uint8 // the bits for a rune of each class after the position
	ctx   []uint8 // the context bits after a rune of each class
}

var (
	newlineSet = []rune{'\n', '\n'}
	wordSet    = []rune{'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}
)

// newProgram translates a program of regexp/syntax.
func newProgram(prog *syntax.Prog) *program {
	p := &program{insts: make([]inst, len(prog.Inst)), first: i32(prog.Start)}
	var sets setTable
	var asserts int32
	for i := range prog.Inst {
		in := &prog.Inst[i]
		to := &p.insts[i]
		to.out, to.arg = i32(in.Out), i32(in.Arg)
		switch in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			to.op = opFork
		case syntax.InstCapture, syntax.InstNop:
			to.op = opJump
		case syntax.InstEmptyWidth:
			to.op = opEmpty
			asserts |= to.arg
		case syntax.InstMatch:
			to.op = opMatch
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if id := sets.add(runeSet(in)); id >= 0 {
				to.op, to.arg = opRune, id
			}
		case syntax.InstFail:
		}
	}
	analyse(p.insts)
	newline, word := int32(-1), int32(-1)
	if asserts&int32(syntax.EmptyBeginLine|syntax.EmptyEndLine) != 0 {
		newline = sets.add(newlineSet)
	}
	if asserts&wordEdge != 0 {
		word = sets.add(wordSet)
	}
	p.sets = sets.sets
	p.alpha = newAlphabet(p.sets)
	p.tabulate(newline, word)
	p.restarts = newStepper(p).canBegin(atLine)
	return p
}

// setTable numbers distinct sets of runes.
type setTable struct {
	sets   [][]rune
	ids    interner
	shared map[*rune]int32 // large sets by their slices, which regexp/syntax shares between repetitions
}

// add returns the number of a set, or -1 for the empty one.
func (t *setTable) add(set []rune) int32 {
	if len(set) == 0 {
		return -1
	}
	large := len(set) > 8
	if large {
		if id, ok := t.shared[&set[0]]; ok && len(t.sets[id]) == len(set) {
			return id
		}
	}
	id, fresh := t.ids.add(set)
	if fresh {
		t.sets = append(t.sets, set)
	}
	if large {
		if t.shared == nil {
			t.shared = map[*rune]int32{}
		}
		t.shared[&set[0]] = id
	}
	return id
}

// runeSet returns the runes that an instruction consumes as sorted pairs, as syntax.Inst.MatchRunePos reads them: a single rune stands
// for itself, with its case variants if folding is on.
func runeSet(in *syntax.Inst) []rune {
	if in.Op == syntax.InstRuneAny {
		return []rune{0, unicode.MaxRune}
	}
	if in.Op == syntax.InstRuneAnyNotNL {
		return []rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune}
	}
	if len(in.Rune) != 1 {
		return in.Rune[:len(in.Rune)&^1]
	}
	r := in.Rune[0]
	set := []rune{r, r}
	if in.Op == syntax.InstRune && in.Arg&uint32(syntax.FoldCase) != 0 {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			set = append(set, f, f)
		}
		slices.Sort(set)
	}
	return set
}

// tabulate fills the tables that are indexed by class.
func (p *program) tabulate(newline, word int32) {
	n := int(p.alpha.n)
	p.rep, p.next, p.ctx = make([]rune, n), make([]uint8, n), make([]uint8, n)
	for i, from := range slices.Backward(p.alpha.from) {
		p.rep[p.alpha.class[i]] = from
	}
	for c, r := range p.rep {
		switch {
		case newline >= 0 && r == '\n':
			p.next[c], p.ctx[c] = nextNewline, atLine
		case word >= 0 && inSet(wordSet, r):
			p.next[c], p.ctx[c] = nextWord, afterWord
		}
	}
	if len(p.sets)*n > maxTable {
		return
	}
	p.in = make([]bool, len(p.sets)*n)
	for i, from := range p.alpha.from {
		c := int(p.alpha.class[i])
		if p.rep[c] != from {
			continue
		}
		for id, set := range p.sets {
			p.in[id*n+c] = inSet(set, from)
		}
	}
}

// takes reports whether the set contains the class.
func (p *program) takes(set, class int32) bool {
	if p.in != nil {
		return p.in[set*p.alpha.n+class]
	}
	return inSet(p.sets[set], p.rep[class])
}
