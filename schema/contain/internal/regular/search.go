package regular

import (
	"cmp"
	"slices"
)

// node is a step of a search: a state reached by some string, the node that it was
// reached from, and the letter in between.
type node struct {
	state, parent, letter int32
	cost                  int32 // of the string, as the sum over its runes
}

// found is the end of a successful search.
type found struct {
	length int64
	cost   int64
	end    int32 // index of the last node
}

// search looks for the shortest string that a product accepts among those with at
// least first and at most last runes, and for a readable one among the shortest.
//
// It goes through the strings by length, keeping for each length the set of states reached (a layer), and for each of them the most
// readable string that leads there. Up to length first, the search visits the same state again in each layer. From there on, it visits
// each state once, because everything after a second visit has been found after the first one.
//
// Up to length first, the layers repeat themselves after some time: a layer is a function of the one before. When layer j equals layer
// i, the lengths in between are a lap, and the search skips as many laps as fit below first.
type search struct {
	p     *product
	m     *meter
	nodes []node
	at    []int32 // by state: its last node
	layer int32   // first node of the layer under construction

	lapTo, lapEnd int32 // layer j is nodes[lapTo:lapEnd]; lapTo is -1 as long as there is none
	lap           int64 // the length of a lap
	laps          int64 // the number of laps that were skipped

	chain *antichain // of the states expanded from length first on; nil: not used
}

func newSearch(p *product) *search { return &search{p: p, m: p.m, lapTo: -1} }

// reach adds a way to a state to the layer under construction. since is the first of the nodes that make another visit unnecessary.
func (s *search) reach(since int32, n node) {
	for len(s.at) < s.p.states.len() {
		s.at = append(s.at, -1)
	}
	if i := s.at[n.state]; i >= since && i >= 0 {
		if i >= s.layer && n.cost < s.nodes[i].cost {
			s.nodes[i] = n
		}
		return
	}
	s.m.step(1)
	s.at[n.state] = i32(len(s.nodes))
	s.nodes = append(s.nodes, n)
}

// expand builds the next layer from the nodes [from, to), and reports whether it has
// any node.
func (s *search) expand(from, to, since int32) bool {
	s.layer = to
	if since < 0 {
		since = to
	}
	if s.chain != nil {
		return s.expandMaximal(from, to, since)
	}
	for i := from; i < to; i++ {
		if !s.follow(i, since) {
			return false
		}
	}
	return int(to) < len(s.nodes)
}

// expandMaximal is expand for the nodes that are not below any earlier node or any node of their own layer. The higher node reaches
// everything that a node below it reaches, with as few runes.
func (s *search) expandMaximal(from, to, since int32) bool {
	todo := make([]int32, 0, to-from)
	for i := from; i < to; i++ {
		todo = append(todo, i)
	}
	slices.SortStableFunc(todo, func(i, j int32) int {
		return cmp.Compare(s.p.weight(s.nodes[i].state), s.p.weight(s.nodes[j].state))
	})
	for _, i := range todo {
		if s.chain.add(s.nodes[i].state) && !s.follow(i, since) {
			return false
		}
	}
	return int(to) < len(s.nodes)
}

// follow adds the successors of one node. It returns false if the meter is over.
func (s *search) follow(i, since int32) bool {
	edges := s.p.successors(s.nodes[i].state)
	s.m.step(len(edges))
	if s.m.over {
		return false
	}
	for _, e := range edges {
		s.reach(since, node{e.to, i, e.letter, s.nodes[i].cost + s.p.letters[e.letter].cost})
	}
	return true
}

// run returns the end of the string, or false if there is none. If the meter is over afterwards, the result means nothing.
func (s *search) run(first, last int64) (found, bool) {
	if s.m.over || first > last {
		return found{}, false
	}
	for _, state := range s.p.start() {
		s.reach(0, node{state: state, parent: -1})
	}
	from, length, ok := s.walk(first)
	if !ok {
		return found{}, false
	}
	since := from
	if s.p.nondet {
		s.chain = &antichain{p: s.p}
	}
	for {
		to := i32(len(s.nodes))
		if end, ok := s.best(from, to); ok {
			return found{length: length, cost: int64(s.nodes[end].cost), end: end}, true
		}
		if length == last || !s.expand(from, to, since) {
			return found{}, false
		}
		from, length = to, length+1
	}
}

// walk builds the layers up to length first. It returns the first node of that
// layer and its length, or false if there is none.
func (s *search) walk(first int64) (from int32, length int64, ok bool) {
	var layers interner
	var states []int32
	for length < first {
		to := i32(len(s.nodes))
		if s.lapTo < 0 {
			states = states[:0]
			for _, n := range s.nodes[from:to] {
				states = append(states, n.state)
			}
			slices.Sort(states)
			s.m.step(len(states))
			id, fresh := layers.add(states)
			if !fresh {
				s.lapTo, s.lapEnd = from, to
				s.lap = length - int64(id) // layers are numbered by their lengths
				s.laps = (first - length) / s.lap
				length += s.laps * s.lap
				continue
			}
		}
		if !s.expand(from, to, -1) {
			return 0, 0, false
		}
		from, length = to, length+1
	}
	return from, length, true
}

// best returns the accepting node of [from, to) with the most readable string.
func (s *search) best(from, to int32) (int32, bool) {
	end := int32(-1)
	for i := from; i < to; i++ {
		if n := s.nodes[i]; s.p.accept[n.state] && (end < 0 || n.cost < s.nodes[end].cost) {
			end = i
		}
	}
	return end, end >= 0
}

// text returns the string that ends at a node.
func (s *search) text(f found) string {
	runes := make([]rune, 0, f.length)
	for i := f.end; s.nodes[i].parent >= 0; {
		if i >= s.lapTo && i < s.lapEnd && s.laps > 0 {
			runes, i = s.replay(runes, i)
		}
		runes, i = s.back(runes, i)
	}
	slices.Reverse(runes)
	return string(runes)
}

// back appends the rune that led to a node, and returns the node before it.
func (s *search) back(runes []rune, i int32) ([]rune, int32) {
	n := s.nodes[i]
	return append(runes, s.p.letters[n.letter].rep), n.parent
}

// replay follows the skipped laps before node i of layer j backwards: each lap repeats the way from layer i to layer j. It returns the
// node of layer j where they begin.
func (s *search) replay(runes []rune, i int32) ([]rune, int32) {
	same := make([]int32, s.p.states.len())
	for j := s.lapTo; j < s.lapEnd; j++ {
		same[s.nodes[j].state] = j
	}
	for left := s.laps; left > 0; left-- {
		end, from := i, len(runes)
		for range s.lap {
			runes, i = s.back(runes, i)
		}
		if i = same[s.nodes[i].state]; i == end {
			// From here on it is always the same.
			return append(runes, slices.Repeat(runes[from:], int(left-1))...), i
		}
	}
	return runes, i
}

// antichain keeps states of a product none of which is below another.
type antichain struct {
	p       *product
	keys    interner
	buckets [][]int32
	key     []int32
}

// add reports whether state is below none of those that were added before, and then
// adds it.
func (c *antichain) add(state int32) bool {
	c.key = c.key[:0]
	for i, s := range c.p.states.get(state) {
		if !c.p.negated[i] {
			c.key = append(c.key, s)
		}
	}
	id, fresh := c.keys.add(c.key)
	if fresh {
		c.buckets = append(c.buckets, nil)
	}
	for _, other := range c.buckets[id] {
		c.p.m.step(1)
		if c.p.below(state, other) {
			return false
		}
	}
	c.buckets[id] = append(c.buckets[id], state)
	return true
}
