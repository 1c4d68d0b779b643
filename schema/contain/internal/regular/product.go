package regular

import (
	"slices"
	"unicode"
)

// letter is a class of runes that no machine of a product distinguishes.
type letter struct {
	rep   rune    // the most readable one
	cost  int32   // of rep
	class []int32 // in the alphabet of each machine
	// ranges holds some of its ranges of runes (first, last), if product.every is set.
	ranges [][2]rune
}

// maxLetterRanges bounds letter.ranges.
const maxLetterRanges = 16

// edge is a transition of a product.
type edge struct{ letter, to int32 }

// product is the automaton of a conjunction: tuples of states of its machines, built during the search. States from which no string can
// be accepted are not built.
type product struct {
	m        *meter
	conj     []*expr
	nested   bool // conj holds more than leaves
	machines []*machine
	leaf     []int // leaf of each machine
	at       []int // machine of each leaf of the query, or -1
	letters  []letter
	// nondet splits the machines that occur without complement only into single
	// instructions, so that a state has several successors for a letter.
	nondet bool
	splits []bool
	// negated tells which machines occur with complement only.
	negated []bool
	// every keeps each letter of a transition, not just the most readable.
	every bool

	states interner
	accept []bool
	edges  [][]edge // of each state, nil: not expanded
	seen   []int32  // by state: source+1 of the last edge to it
	tuple  []int32
	parts  [][]int32
	known  func(leaf int) truth
}

// newProduct prepares the product of a conjunction over the leaves of q. If m is over afterwards, the product must not be used.
func newProduct(q *query, conj []*expr, every bool, m *meter) *product {
	p := &product{m: m, conj: conj, every: every, at: make([]int, len(q.leaves))}
	for i := range p.at {
		p.at[i] = -1
	}
	plain, complemented := make([]bool, len(q.leaves)), make([]bool, len(q.leaves))
	nothing := func(int) truth { return open }
	for _, e := range conj {
		p.nested = p.nested || e.op != exprLeaf
		e.walk(nothing, func(leaf *expr) {
			if leaf.neg {
				complemented[leaf.leaf] = true
			} else {
				plain[leaf.leaf] = true
			}
			if p.at[leaf.leaf] >= 0 || m.over {
				return
			}
			p.at[leaf.leaf] = len(p.machines)
			p.leaf = append(p.leaf, leaf.leaf)
			p.machines = append(p.machines, newMachine(q.leaves[leaf.leaf].prog, m))
		})
	}
	for _, leaf := range p.leaf {
		p.splits = append(p.splits, !complemented[leaf])
		p.negated = append(p.negated, !plain[leaf])
	}
	p.tuple = make([]int32, len(p.machines))
	p.parts = make([][]int32, len(p.machines))
	p.known = func(leaf int) truth {
		switch p.tuple[p.at[leaf]] {
		case dead:
			return never
		case full:
			return always
		}
		return open
	}
	p.joinAlphabets()
	return p
}

// joinAlphabets computes the common refinement of the machines' alphabets. Surrogates
// belong to no letter.
func (p *product) joinAlphabets() {
	k := len(p.machines)
	pos := make([]int, k) // the current interval of each alphabet
	classes := make([]int32, k)
	var known interner
	for first := rune(0); first <= unicode.MaxRune; {
		last := rune(unicode.MaxRune)
		for i, m := range p.machines {
			a := m.letters()
			if pos[i]+1 < len(a.from) && a.from[pos[i]+1] <= first {
				pos[i]++
			}
			classes[i] = a.class[pos[i]]
			if pos[i]+1 < len(a.from) {
				last = min(last, a.from[pos[i]+1]-1)
			}
		}
		p.m.step(1 + k)
		if p.m.over {
			return
		}
		p.addInterval(&known, classes, first, last)
		first = last + 1
	}
	for i := range p.letters {
		p.letters[i].cost = cost(p.letters[i].rep)
		p.letters[i].class = known.get(int32(i))
	}
	slices.SortFunc(p.letters, func(a, b letter) int { return order(a.rep, b.rep) })
}

func (p *product) addInterval(known *interner, classes []int32, first, last rune) {
	if first >= surrogateMin && last <= surrogateMax {
		return
	}
	id, fresh := known.add(classes)
	if p.every {
		defer func() {
			if l := &p.letters[id]; len(l.ranges) < maxLetterRanges {
				l.ranges = append(l.ranges, [2]rune{first, last})
			}
		}()
	}
	if fresh {
		p.letters = append(p.letters, letter{})
	} else if cost(p.letters[id].rep) <= leastCost(first) {
		return
	}
	r, ok := best(first, last)
	if ok && (fresh || order(r, p.letters[id].rep) < 0) {
		p.letters[id].rep = r
	}
}

// start returns the initial states.
func (p *product) start() []int32 {
	for i, m := range p.machines {
		p.parts[i] = append(p.parts[i][:0], m.start())
	}
	return p.combine(nil)
}

// successors returns the transitions of a state. If several letters lead to the same state, it returns the most readable one, or all if
// every is set.
func (p *product) successors(state int32) []edge {
	if known := p.edges[state]; known != nil {
		return known
	}
	out := make([]edge, 0, 4)
	var to []int32
	for c := range p.letters {
		p.m.step(len(p.machines) + 1)
		from := p.states.get(state)
		for i, m := range p.machines {
			p.parts[i] = append(p.parts[i][:0], m.step(from[i], p.letters[c].class[i]))
		}
		to = p.combine(to[:0])
		if p.m.over {
			break
		}
		for _, t := range to {
			if !p.every {
				if p.seen[t] == state+1 {
					continue
				}
				p.seen[t] = state + 1
			}
			out = append(out, edge{int32(c), t})
		}
	}
	p.m.step(len(out))
	p.edges[state] = out
	return out
}

// combine numbers the tuple of p.parts, or those that it is split into, leaving out
// those that accept nothing.
func (p *product) combine(dst []int32) []int32 {
	if p.nondet {
		for i, m := range p.machines {
			if p.splits[i] {
				whole := p.parts[i][0]
				p.parts[i] = m.singles(whole, p.parts[i][:0])
			}
		}
	}
	p.choose(0, &dst)
	return dst
}

// choose goes through the tuples of parts from machine i on.
func (p *product) choose(i int, dst *[]int32) {
	if p.m.over {
		return
	}
	if i < len(p.machines) {
		for _, s := range p.parts[i] {
			p.tuple[i] = s
			p.choose(i+1, dst)
		}
		return
	}
	if id, ok := p.number(); ok {
		*dst = append(*dst, id)
	}
}

// number returns the state for p.tuple, or false if it accepts nothing.
func (p *product) number() (int32, bool) {
	p.m.step(len(p.conj))
	for _, e := range p.conj {
		if e.eval(p.known) == never {
			return 0, false
		}
	}
	tuple := p.tuple
	if p.nested {
		tuple = p.trim()
	}
	id, fresh := p.states.add(tuple)
	if fresh {
		p.m.state()
		p.m.step(len(tuple))
		p.accept = append(p.accept, p.accepting())
		p.edges = append(p.edges, nil)
		p.seen = append(p.seen, 0)
	}
	return id, true
}

// trim returns p.tuple without the states that can no longer make a difference.
func (p *product) trim() []int32 {
	out := make([]int32, len(p.tuple))
	copy(out, p.tuple)
	matters := make([]bool, len(p.tuple))
	for _, e := range p.conj {
		p.m.step(len(e.kids))
		e.walk(p.known, func(leaf *expr) { matters[p.at[leaf.leaf]] = true })
	}
	for i, yes := range matters {
		if !yes && out[i] > full {
			out[i] = dead
		}
	}
	return out
}

func (p *product) accepting() bool {
	for _, e := range p.conj {
		in := e.eval(func(leaf int) truth {
			if i := p.at[leaf]; p.machines[i].accepts(p.tuple[i]) {
				return always
			}
			return never
		})
		if in != always {
			return false
		}
	}
	return true
}

// below reports whether all that state a accepts is known to be accepted by state b.
func (p *product) below(a, b int32) bool {
	ta, tb := p.states.get(a), p.states.get(b)
	for i, m := range p.machines {
		switch {
		case ta[i] == tb[i]:
		case p.splits[i]:
			if !m.below(ta[i], tb[i]) {
				return false
			}
		case !p.negated[i] || !m.below(tb[i], ta[i]):
			return false
		}
	}
	return true
}

// weight orders states such that one comes before those that are below it and have the same
// states of all machines without complement.
func (p *product) weight(state int32) int {
	n := 0
	for i, s := range p.states.get(state) {
		if p.negated[i] {
			n += p.machines[i].weight(s)
		}
	}
	return n
}
