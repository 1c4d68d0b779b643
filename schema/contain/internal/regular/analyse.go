package regular

import "regexp/syntax"

// graph is the edges of a program, by their ends.
type graph struct {
	insts []inst
	start []int32 // from[start[i]:start[i+1]] are the instructions that lead to i
	from  []int32
	work  []int32
}

func newGraph(insts []inst) *graph {
	g := &graph{insts: insts, start: make([]int32, len(insts)+1)}
	for i := range insts {
		a, b := insts[i].targets()
		if a >= 0 {
			g.start[a+1]++
		}
		if b >= 0 {
			g.start[b+1]++
		}
	}
	for i := range insts {
		g.start[i+1] += g.start[i]
	}
	g.from = make([]int32, g.start[len(insts)])
	fill := append([]int32(nil), g.start...)
	for i := range insts {
		a, b := insts[i].targets()
		for _, to := range [...]int32{a, b} {
			if to >= 0 {
				g.from[fill[to]] = int32(i)
				fill[to]++
			}
		}
	}
	return g
}

// targets returns where an instruction leads, -1 for nowhere.
func (in *inst) targets() (a, b int32) {
	switch in.op {
	case opFork:
		return in.out, in.arg
	case opJump, opEmpty, opRune:
		return in.out, -1
	case opFail, opMatch:
	}
	return -1, -1
}

// spread marks the seeds and, backwards, all that leads to a marked instruction. With
// free set, only edges that consume no rune count. mark reports whether its mark is new.
func (g *graph) spread(free bool, seed func(*inst) bool, mark func(int32) bool) {
	work := g.work[:0]
	for i := range g.insts {
		if seed(&g.insts[i]) && mark(int32(i)) {
			work = append(work, int32(i))
		}
	}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		for _, from := range g.from[g.start[at]:g.start[at+1]] {
			if free && g.insts[from].op == opRune {
				continue
			}
			if mark(from) {
				work = append(work, from)
			}
		}
	}
	g.work = work
}

// analyse turns instructions from which opMatch cannot be reached into opFail, and
// fills ends and need.
func analyse(insts []inst) {
	g := newGraph(insts)
	isMatch := func(in *inst) bool { return in.op == opMatch }

	live := make([]bool, len(insts))
	g.spread(false, isMatch, func(i int32) bool {
		fresh := !live[i]
		live[i] = true
		return fresh
	})
	for i := range insts {
		if !live[i] {
			insts[i] = inst{op: opFail}
		}
	}
	g.spread(true, isMatch, func(i int32) bool {
		fresh := !insts[i].ends
		insts[i].ends = true
		return fresh
	})
	for _, n := range [...]struct {
		bit     uint8
		asserts int32
	}{
		{atText, int32(syntax.EmptyBeginText)},
		{atLine, int32(syntax.EmptyBeginLine)},
		{afterWord, wordEdge},
	} {
		g.spread(true,
			func(in *inst) bool { return in.op == opEmpty && in.arg&n.asserts != 0 },
			func(i int32) bool {
				fresh := insts[i].need&n.bit == 0
				insts[i].need |= n.bit
				return fresh
			})
	}
}
