package regular

import (
	"slices"
)

// States that every machine has.
const (
	dead int32 = 0 // accepts nothing, whatever follows
	full int32 = 1 // accepts everything, whatever follows
)

// machine is the subset construction over a program.
type machine struct {
	*stepper
	m      *meter
	sets   interner // context bits that matter, then the sorted instructions
	delta  [][]int32
	accept []bool
	buf    []int32
}

func newMachine(p *program, m *meter) *machine {
	m.step(len(p.insts) / 4)
	r := &machine{stepper: newStepper(p), m: m}
	r.sets.add([]int32{-1}) // dead
	r.sets.add([]int32{-2}) // full
	r.delta = make([][]int32, 2, 32)
	r.accept = append(make([]bool, 0, 32), false, true)
	return r
}

func (r *machine) letters() *alphabet       { return r.p.alpha }
func (r *machine) accepts(state int32) bool { return r.accept[state] }

func (r *machine) start() int32 {
	set, matched := r.begin(append(r.buf[:0], 0))
	r.buf = set
	if matched {
		return full
	}
	return r.number(set, startContext)
}

func (r *machine) step(state, class int32) int32 {
	if state <= full {
		return state
	}
	row := r.delta[state]
	if row == nil {
		row = make([]int32, r.p.alpha.n)
		r.m.step(len(row))
		r.delta[state] = row
	}
	if to := row[class]; to != 0 {
		return to - 1
	}
	key := r.sets.get(state)
	set, matched := r.advance(key[1:], context(key), class, append(r.buf[:0], 0))
	r.buf = set
	to := full
	if !matched {
		to = r.number(set, r.p.ctx[class])
	}
	row[class] = to + 1
	return to
}

// number returns the state for set[1:] in context ctx; set[0] is room for the context.
func (r *machine) number(set []int32, ctx uint8) int32 {
	r.m.step(r.steps)
	r.steps = 0
	if len(set) == 1 && !r.p.restarts {
		return dead
	}
	var need uint8
	for _, pc := range set[1:] {
		if r.p.insts[pc].op == opEmpty {
			need |= r.p.insts[pc].need
		}
	}
	set[0] = int32(ctx & need)
	if rest := set[1:]; !slices.IsSorted(rest) {
		slices.Sort(rest)
	}
	id, fresh := r.sets.add(set)
	if fresh {
		r.m.state()
		r.m.step(len(set))
		r.delta = append(r.delta, nil)
		r.accept = append(r.accept, r.stepper.accepts(set[1:], ctx&need))
	}
	return id
}

// singles splits a set into its instructions. An unanchored search still works: the first instructions join each part again at its next
// step.
func (r *machine) singles(state int32, dst []int32) []int32 {
	if state <= full || len(r.sets.get(state)) == 2 {
		return append(dst, state)
	}
	for i := 1; i < len(r.sets.get(state)); i++ {
		key := r.sets.get(state)
		dst = append(dst, r.number([]int32{0, key[i]}, context(key)))
	}
	return dst
}

func (r *machine) below(a, b int32) bool {
	switch {
	case a == b || a == dead || b == full:
		return true
	case a == full || b == dead:
		return false
	}
	ka, kb := r.sets.get(a), r.sets.get(b)
	if len(ka) > len(kb) {
		return false
	}
	r.m.step(len(kb) / 4)
	var need uint8
	for j, i := 1, 1; i < len(ka); i++ {
		for j < len(kb) && kb[j] < ka[i] {
			j++
		}
		if j == len(kb) || kb[j] != ka[i] {
			return false
		}
		if in := &r.p.insts[ka[i]]; in.op == opEmpty {
			need |= in.need
		}
	}
	return ka[0] == kb[0]&int32(need)
}

func (r *machine) weight(state int32) int {
	switch state {
	case dead:
		return 0
	case full:
		return len(r.p.insts) + 2
	}
	return len(r.sets.get(state))
}
