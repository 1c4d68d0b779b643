package regular

import (
	"slices"
	"unicode/utf8"
)

// Members returns at most n members of a, for use as test values: short ones, which together use as many branches of the patterns as
// possible, and a few longer ones, with some variety of runes. They are distinct, sorted by length and then by readability, and the
// same on every run; the first is a shortest member if the budget allows to find it. There are fewer than n when a has fewer, when no
// more were found, or when the budget is spent: nothing follows from their number.
func Members(a *Lang, n int, budget Budget) []string {
	if n <= 0 {
		return nil
	}
	budget = budget.orDefault()
	q := newQuery(a, budget)
	defer func() { budget.count(q.m.spent) }()
	tasks, ok := q.tasks()
	if !ok {
		return nil
	}
	var out []candidate
	for i, t := range tasks {
		// Early tasks, which are about short strings, get more than their share.
		want := max(1, (n-len(out)+1)/2)
		if i == len(tasks)-1 {
			want = max(1, n-len(out))
		}
		if t.first > int64(budget.Runes) {
			break
		}
		t.last = min(t.last, int64(budget.Runes))
		part := q.m.share(len(tasks) - i)
		for _, s := range q.sample(t, want, false, part) {
			out = append(out, newCandidate(s))
		}
		q.m.add(part)
	}
	slices.SortFunc(out, candidate.compare)
	list := make([]string, 0, len(out))
	for _, c := range out {
		list = append(list, c.text)
	}
	list = slices.Compact(list)
	return list[:min(n, len(list))]
}

// sample returns about n strings of a task. It determinises, or tries one instruction at a time, first the one and then the other;
// nondet says which comes first. If m is over, the result is still right, but has fewer strings.
func (q *query) sample(t task, n int, nondet bool, m *meter) []string {
	if t.first > maxRoam {
		return q.only(t, m)
	}
	for _, nondet := range [...]bool{nondet, !nondet} {
		part := m.share(2)
		out := q.draw(t, n, nondet, part)
		m.add(part)
		if len(out) > 0 {
			return out
		}
	}
	return q.only(t, m)
}

// draw is sample by way of a product, which it builds as far as m allows.
func (q *query) draw(t task, n int, nondet bool, m *meter) []string {
	p := newProduct(q, t.conj, true, m.share(2))
	p.nondet = nondet
	if p.m.over {
		m.add(p.m)
		return nil
	}
	s := &sampler{p: p, first: t.first, last: t.last, have: map[string]bool{}}
	s.explore()
	m.add(p.m)
	p.m = m // for later steps; no more states are built
	s.measure()
	s.cover(n - n/3)
	s.roam(n - len(s.out))
	s.cover(n - len(s.out))
	return s.out
}

// only returns the shortest string of a task.
func (q *query) only(t task, m *meter) []string {
	s := newSearch(newProduct(q, t.conj, false, m))
	if f, ok := s.run(t.first, t.last); ok && !m.over {
		return []string{s.text(f)}
	}
	return nil
}

// sampler draws strings from the part of a product that was built.
type sampler struct {
	p           *product
	first, last int64
	out         []string
	have        map[string]bool

	path  []node     // by state: how it is reached first
	order []int32    // the states that were expanded, by distance from the start
	toEnd []int32    // by state: the index of the edge to go on with, or -1 in an accepting state
	dist  []int32    // by state: the number of runes to acceptance, or -1
	used  [][]uint64 // by state: the edges that a string in out goes through
	seed  uint64
}

// explore builds the product, by distance from the start, until the budget is spent.
func (s *sampler) explore() {
	add := func(n node) {
		for len(s.path) < s.p.states.len() {
			s.path = append(s.path, node{state: -1})
		}
		if s.path[n.state].state < 0 {
			s.path[n.state] = n
			s.order = append(s.order, n.state)
		}
	}
	for _, state := range s.p.start() {
		add(node{state: state, parent: -1})
	}
	if s.p.m.over {
		s.order = nil
	}
	for i := 0; i < len(s.order); i++ {
		from := s.order[i]
		edges := s.p.successors(from)
		if s.p.m.over {
			s.order = s.order[:i+1]
			break
		}
		for _, e := range edges {
			add(node{state: e.to, parent: from, letter: e.letter})
		}
	}
}

// measure finds, for each state, the shortest way to acceptance.
func (s *sampler) measure() {
	type source struct{ state, index int32 }
	n := s.p.states.len()
	s.toEnd, s.dist, s.used = make([]int32, n), make([]int32, n), make([][]uint64, n)
	back := make([][]source, n)
	var work []int32
	for i := range s.dist {
		s.dist[i] = -1
	}
	for _, from := range s.order {
		if s.p.accept[from] {
			s.dist[from], s.toEnd[from] = 0, -1
			work = append(work, from)
		}
		for i, e := range s.p.edges[from] {
			back[e.to] = append(back[e.to], source{from, int32(i)})
		}
		s.used[from] = make([]uint64, len(s.p.edges[from])/64+1)
	}
	for i := 0; i < len(work); i++ {
		at := work[i]
		for _, src := range back[at] {
			if s.dist[src.state] < 0 {
				s.dist[src.state], s.toEnd[src.state] = s.dist[at]+1, src.index
				work = append(work, src.state)
			}
		}
	}
}

// emit adds a string if it has the right length and is new.
func (s *sampler) emit(runes []rune) bool {
	if n := int64(len(runes)); n < s.first || n > s.last {
		return false
	}
	text := string(runes)
	if s.have[text] {
		return false
	}
	s.have[text] = true
	s.out = append(s.out, text)
	return true
}

// cover adds up to n strings such that each goes through an edge that none before goes
// through.
func (s *sampler) cover(n int) {
	if n <= 0 || len(s.order) == 0 {
		return
	}
	start := s.order[0]
	if s.dist[start] < 0 {
		return
	}
	if s.emit(s.finish(nil, start)) {
		n--
	}
	for _, from := range s.order {
		for i, e := range s.p.edges[from] {
			if n <= 0 {
				return
			}
			if s.dist[e.to] < 0 || s.used[from][i/64]&(1<<(i%64)) != 0 {
				continue
			}
			s.used[from][i/64] |= 1 << (i % 64)
			s.p.m.step(8)
			if s.p.m.over {
				return
			}
			runes := s.finish(append(s.prefix(from), s.p.letters[e.letter].rep), e.to)
			if s.emit(runes) {
				n--
			}
		}
	}
}

// prefix returns the shortest string that leads to a state.
func (s *sampler) prefix(state int32) []rune {
	var runes []rune
	for n := s.path[state]; n.parent >= 0; n = s.path[n.parent] {
		runes = append(runes, s.p.letters[n.letter].rep)
	}
	slices.Reverse(runes)
	s.p.m.step(len(runes))
	return runes
}

// finish appends the shortest string that is accepted from a state on, and marks the
// edges that it takes.
func (s *sampler) finish(runes []rune, state int32) []rune {
	for s.toEnd[state] >= 0 {
		i := s.toEnd[state]
		s.used[state][i/64] |= 1 << (i % 64)
		e := s.p.edges[state][i]
		runes = append(runes, s.p.letters[e.letter].rep)
		state = e.to
	}
	s.p.m.step(len(runes))
	return runes
}

// maxRoam is the greatest length of a string that roam draws.
const maxRoam = 2048

// roam adds up to n strings that are drawn at random among those of a given length,
// for several lengths. The generator is seeded with a constant.
func (s *sampler) roam(n int) {
	if n <= 0 || len(s.order) == 0 || s.dist[s.order[0]] < 0 {
		return
	}
	start := s.order[0]
	base := max(s.first, int64(s.dist[start]))
	var lengths []int64
	for _, more := range [...]int64{0, 1, 2, 3, 5, 8, 13, 21, 34} {
		if base+more <= min(s.last, maxRoam) {
			lengths = append(lengths, base+more)
		}
	}
	if s.last <= maxRoam {
		lengths = append(lengths, s.last)
	}
	if len(lengths) == 0 {
		return
	}
	exact := s.exact(int(slices.Max(lengths)))
	lengths = slices.DeleteFunc(lengths, func(n int64) bool {
		return n >= int64(len(exact)) || !exact[n].has(start)
	})
	for try := 0; try < 4*n && n > 0 && len(lengths) > 0; try++ {
		runes, ok := s.draw(start, int(lengths[try%len(lengths)]), exact)
		if s.p.m.over {
			return
		}
		if ok && s.emit(runes) {
			n--
		}
	}
}

// bits is a set of states.
type bits []uint64

func (b bits) has(i int32) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b bits) set(i int32)      { b[i/64] |= 1 << (i % 64) }

// exact returns, for each length up to longest, the states from which a string of exactly
// that length is accepted; for fewer lengths if the budget is spent.
func (s *sampler) exact(longest int) []bits {
	n := s.p.states.len()
	ends := make(bits, n/64+1)
	targets := make([][]int32, n) // each once
	last := make([]int32, n)      // the source+1 that was last seen to lead to a state
	for _, from := range s.order {
		if s.p.accept[from] {
			ends.set(from)
		}
		for _, e := range s.p.edges[from] {
			if s.dist[e.to] >= 0 && last[e.to] != from+1 {
				last[e.to] = from + 1
				targets[from] = append(targets[from], e.to)
			}
		}
	}
	out := []bits{ends}
	for len(out) <= longest {
		prev, next := out[len(out)-1], make(bits, n/64+1)
		for _, from := range s.order {
			s.p.m.step(1 + len(targets[from]))
			if slices.ContainsFunc(targets[from], prev.has) {
				next.set(from)
			}
		}
		if s.p.m.over {
			break
		}
		out = append(out, next)
	}
	return out
}

// draw returns a random string of exactly the given length.
func (s *sampler) draw(state int32, length int, exact []bits) ([]rune, bool) {
	runes := make([]rune, 0, length)
	var open []edge
	for left := length - 1; left >= 0; left-- {
		open = open[:0]
		for _, e := range s.p.edges[state] {
			if exact[left].has(e.to) {
				open = append(open, e)
			}
		}
		s.p.m.step(len(s.p.edges[state]))
		if len(open) == 0 || s.p.m.over {
			return nil, false
		}
		e := open[s.random(len(open))]
		runes = append(runes, s.vary(&s.p.letters[e.letter]))
		state = e.to
	}
	return runes, true
}

// vary returns a rune of a letter, mostly a printable ASCII one where there is one.
func (s *sampler) vary(l *letter) rune {
	if len(l.ranges) == 0 || s.random(2) == 0 {
		return l.rep
	}
	r := l.ranges[s.random(len(l.ranges))]
	first, last := r[0], r[1]
	if first <= '~' && last > ' ' && s.random(8) > 0 {
		first, last = max(first, '!'), min(last, '~')
	}
	pick := first + i32(s.random(int(last-first)+1))
	if !utf8.ValidRune(pick) {
		return l.rep
	}
	return pick
}

// random returns a number from 0 to n-1, by the splitmix64 generator.
func (s *sampler) random(n int) int {
	s.seed += 0x9e3779b97f4a7c15
	z := s.seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return below(z^z>>31, n)
}
