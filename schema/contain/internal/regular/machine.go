package regular

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// machine is a deterministic automaton for one leaf of a query, built as far as it
// is walked. Its states count from 0.
type machine interface {
	letters() *alphabet
	start() int32
	// step returns the state after a rune of class, in the machine's own alphabet.
	step(state, class int32) int32
	accepts(state int32) bool
	// singles appends states whose languages unite to that of state, each as small as
	// the machine can make them.
	singles(state int32, dst []int32) []int32
	// below reports whether the language of a is known to be within that of b. It may
	// say no where it is.
	below(a, b int32) bool
	// weight is smaller for a than for b when a is below b and not the same.
	weight(state int32) int
}

// States that every machine has.
const (
	dead int32 = 0 // accepts nothing, whatever follows
	full int32 = 1 // accepts everything, whatever follows
)

// regexMachine is the subset construction over a program.
type regexMachine struct {
	*stepper
	m      *meter
	sets   interner // context bits that matter, then the sorted instructions
	delta  [][]int32
	accept []bool
	buf    []int32
}

func newRegexMachine(p *program, m *meter) *regexMachine {
	m.step(len(p.insts) / 4)
	r := &regexMachine{stepper: newStepper(p), m: m}
	r.sets.add([]int32{-1}) // dead
	r.sets.add([]int32{-2}) // full
	r.delta = make([][]int32, 2, 32)
	r.accept = append(make([]bool, 0, 32), false, true)
	return r
}

func (r *regexMachine) letters() *alphabet       { return r.p.alpha }
func (r *regexMachine) accepts(state int32) bool { return r.accept[state] }

func (r *regexMachine) start() int32 {
	set, matched := r.begin(append(r.buf[:0], 0))
	r.buf = set
	if matched {
		return full
	}
	return r.number(set, startContext)
}

func (r *regexMachine) step(state, class int32) int32 {
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
func (r *regexMachine) number(set []int32, ctx uint8) int32 {
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

// singles splits a set into its instructions. A search that restarts everywhere is not
// lost by this: the first instructions join each part again at its next step.
func (r *regexMachine) singles(state int32, dst []int32) []int32 {
	if state <= full || len(r.sets.get(state)) == 2 {
		return append(dst, state)
	}
	for i := 1; i < len(r.sets.get(state)); i++ {
		key := r.sets.get(state)
		dst = append(dst, r.number([]int32{0, key[i]}, context(key)))
	}
	return dst
}

func (r *regexMachine) below(a, b int32) bool {
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

func (r *regexMachine) weight(state int32) int {
	switch state {
	case dead:
		return 0
	case full:
		return len(r.p.insts) + 2
	}
	return len(r.sets.get(state))
}

// finite is a set of strings, sorted by bytes and without repetitions. All are valid UTF-8.
type finite struct {
	strings []string
	alpha   *alphabet
	runes   []rune // the rune of class i+1; class 0 is all the others
}

func newFinite(list []string) *finite {
	f := &finite{}
	for _, s := range list {
		if utf8.ValidString(s) {
			f.strings = append(f.strings, s)
		}
	}
	slices.Sort(f.strings)
	f.strings = slices.Compact(f.strings)
	seen := map[rune]struct{}{}
	for _, s := range f.strings {
		for _, r := range s {
			if _, ok := seen[r]; !ok {
				seen[r] = struct{}{}
				f.runes = append(f.runes, r)
			}
		}
	}
	slices.Sort(f.runes)
	f.alpha = &alphabet{from: []rune{0}, class: []int32{0}, n: i32(len(f.runes)) + 1}
	for i, r := range f.runes {
		if last := len(f.alpha.from) - 1; f.alpha.from[last] == r {
			f.alpha.class[last] = int32(i + 1)
		} else {
			f.alpha.from = append(f.alpha.from, r)
			f.alpha.class = append(f.alpha.class, int32(i+1))
		}
		if r < utf8.MaxRune {
			f.alpha.from = append(f.alpha.from, r+1)
			f.alpha.class = append(f.alpha.class, 0)
		}
	}
	return f
}

func (f *finite) contains(s string) bool {
	_, ok := slices.BinarySearch(f.strings, s)
	return ok
}

// finiteMachine walks the trie of a finite set. A state is a range of the sorted strings
// and the length of the prefix, in bytes, that they share.
type finiteMachine struct {
	f      *finite
	m      *meter
	states interner // first, end, length of the prefix
}

func newFiniteMachine(f *finite, m *meter) *finiteMachine {
	t := &finiteMachine{f: f, m: m}
	t.states.add([]int32{-1}) // dead
	t.states.add([]int32{-2}) // full, which is never reached
	return t
}

func (t *finiteMachine) letters() *alphabet { return t.f.alpha }

func (t *finiteMachine) start() int32 { return t.number(0, len(t.f.strings), 0) }

func (t *finiteMachine) number(first, end, prefix int) int32 {
	if first == end {
		return dead
	}
	id, fresh := t.states.add([]int32{i32(first), i32(end), i32(prefix)})
	if fresh {
		t.m.state()
	}
	return id
}

func (t *finiteMachine) step(state, class int32) int32 {
	t.m.step(1)
	if state <= full {
		return state
	}
	if class == 0 {
		return dead
	}
	key := t.states.get(state)
	first, end, prefix := int(key[0]), int(key[1]), int(key[2])
	var buf [utf8.UTFMax]byte
	letter := string(buf[:utf8.EncodeRune(buf[:], t.f.runes[class-1])])
	part := t.f.strings[first:end]
	// UTF-8 sorts as its runes do, so those that go on with letter are one range.
	lo, _ := slices.BinarySearchFunc(part, letter, func(s, l string) int {
		return cmp.Compare(s[prefix:], l)
	})
	hi, _ := slices.BinarySearchFunc(part[lo:], letter, func(s, l string) int {
		if strings.HasPrefix(s[prefix:], l) {
			return -1
		}
		return 1
	})
	return t.number(first+lo, first+lo+hi, prefix+len(letter))
}

func (t *finiteMachine) accepts(state int32) bool {
	if state <= full {
		return state == full
	}
	key := t.states.get(state)
	return len(t.f.strings[key[0]]) == int(key[2])
}

func (t *finiteMachine) singles(state int32, dst []int32) []int32 { return append(dst, state) }

func (t *finiteMachine) below(a, b int32) bool { return a == b || a == dead || b == full }

func (t *finiteMachine) weight(state int32) int {
	switch state {
	case dead:
		return 0
	case full:
		return len(t.f.strings) + 1
	}
	key := t.states.get(state)
	return int(key[1] - key[0])
}
