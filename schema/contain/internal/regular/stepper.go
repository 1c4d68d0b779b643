package regular

import "regexp/syntax"

// stepper moves sets of instructions of a program over runes. Such a set, with the context bits of its position, stands for all the
// ways in which the pattern can still match: it has the opRune instructions that may consume the next rune, and the opEmpty ones whose
// assertion depends on it. All other instructions are followed at once.
//
// As soon as opMatch is reached, the search has succeeded whatever follows; this is
// reported instead of a set.
type stepper struct {
	p     *program
	mark  []uint32 // of the set under construction
	gen   uint32
	mark2 []uint32 // of the instructions after assertions that hold
	gen2  uint32
	stack []int32
	ready []int32
	// steps counts the instructions visited.
	steps int
}

func newStepper(p *program) *stepper {
	marks := make([]uint32, 2*len(p.insts))
	return &stepper{p: p, mark: marks[:len(p.insts)], mark2: marks[len(p.insts):]}
}

const startContext = atText | atLine

// begin appends to dst the set at the beginning of the text.
func (s *stepper) begin(dst []int32) (set []int32, matched bool) {
	s.gen++
	return s.follow(s.p.first, startContext, dst)
}

// canBegin reports whether a match can begin at a position with the given context.
func (s *stepper) canBegin(ctx uint8) bool {
	s.gen++
	set, matched := s.follow(s.p.first, ctx, nil)
	return matched || len(set) > 0
}

// advance appends to dst the set after a rune of class, from set with context ctx. The
// context of the result is s.p.ctx[class]. set and dst must not overlap.
func (s *stepper) advance(set []int32, ctx uint8, class int32, dst []int32) (to []int32, matched bool) {
	p := s.p
	s.gen++
	s.gen2++
	s.ready = s.ready[:0]
	after := p.ctx[class]
	s.steps += len(set) + 1
	for _, pc := range set {
		in := &p.insts[pc]
		if in.op == opRune {
			if p.takes(in.arg, class) {
				if dst, matched = s.follow(in.out, after, dst); matched {
					return dst, true
				}
			}
		} else if s.resolve(pc, ctx, p.next[class]) {
			return dst, true
		}
	}
	for _, pc := range s.ready {
		if in := &p.insts[pc]; p.takes(in.arg, class) {
			if dst, matched = s.follow(in.out, after, dst); matched {
				return dst, true
			}
		}
	}
	if !p.restarts {
		return dst, false
	}
	return s.follow(p.first, after, dst) // the search is not anchored
}

// accepts reports whether the pattern matches if the text ends here.
func (s *stepper) accepts(set []int32, ctx uint8) bool {
	s.gen2++
	s.ready = s.ready[:0]
	s.steps += len(set)
	for _, pc := range set {
		if s.p.insts[pc].op == opEmpty && s.resolve(pc, ctx, nextEnd) {
			return true
		}
	}
	return false
}

// follow adds to dst the instructions that can be reached from pc without consuming a rune, if only the text before the position is
// known.
func (s *stepper) follow(pc int32, ctx uint8, dst []int32) (set []int32, matched bool) {
	stack := append(s.stack[:0], pc)
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if s.mark[pc] == s.gen {
			continue
		}
		s.mark[pc] = s.gen
		s.steps++
		in := &s.p.insts[pc]
		switch in.op {
		case opFail:
		case opMatch:
			s.stack = stack
			return dst, true
		case opRune:
			dst = append(dst, pc)
		case opFork:
			stack = append(stack, in.arg, in.out)
		case opJump:
			stack = append(stack, in.out)
		case opEmpty:
			switch {
			case !behindHolds(in.arg, ctx):
			case in.arg&lookAhead == 0:
				stack = append(stack, in.out)
			case in.arg&int32(syntax.EmptyEndText) != 0 && !in.ends:
				// Runes would have to follow the end of the text.
			default:
				dst = append(dst, pc)
			}
		}
	}
	s.stack = stack
	return dst, false
}

// resolve follows pc without consuming a rune, if both sides of the position are known. It adds the opRune instructions that it reaches
// to s.ready, and reports whether it reaches opMatch.
func (s *stepper) resolve(pc int32, ctx, next uint8) bool {
	stack := append(s.stack[:0], pc)
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if s.mark2[pc] == s.gen2 {
			continue
		}
		s.mark2[pc] = s.gen2
		s.steps++
		in := &s.p.insts[pc]
		switch in.op {
		case opFail:
		case opMatch:
			s.stack = stack
			return true
		case opRune:
			s.ready = append(s.ready, pc)
		case opFork:
			stack = append(stack, in.arg, in.out)
		case opJump:
			stack = append(stack, in.out)
		case opEmpty:
			if behindHolds(in.arg, ctx) && aheadHolds(in.arg, ctx, next) {
				stack = append(stack, in.out)
			}
		}
	}
	s.stack = stack
	return false
}

// behindHolds reports whether the assertions that need only ctx hold.
func behindHolds(asserts int32, ctx uint8) bool {
	return (asserts&int32(syntax.EmptyBeginText) == 0 || ctx&atText != 0) &&
		(asserts&int32(syntax.EmptyBeginLine) == 0 || ctx&atLine != 0)
}

// aheadHolds reports whether the other assertions hold.
func aheadHolds(asserts int32, ctx, next uint8) bool {
	edge := (ctx&afterWord != 0) != (next == nextWord)
	return (asserts&int32(syntax.EmptyEndText) == 0 || next == nextEnd) &&
		(asserts&int32(syntax.EmptyEndLine) == 0 || next == nextEnd || next == nextNewline) &&
		(asserts&int32(syntax.EmptyWordBoundary) == 0 || edge) &&
		(asserts&int32(syntax.EmptyNoWordBoundary) == 0 || !edge)
}

// match reports whether the pattern matches somewhere in text.
func (p *program) match(text string, m *meter) bool {
	s := newStepper(p)
	m.step(len(p.insts) / 8)
	set, matched := s.begin(nil)
	ctx := uint8(startContext)
	var spare []int32
	for _, r := range text {
		if matched || len(set) == 0 && !p.restarts {
			break
		}
		class := p.alpha.of(r)
		spare, matched = s.advance(set, ctx, class, spare[:0])
		set, spare = spare, set
		ctx = p.ctx[class]
		m.step(s.steps)
		s.steps = 0
		if m.over {
			return false
		}
	}
	return matched || s.accepts(set, ctx)
}
