package regular

import (
	"cmp"
	"fmt"
)

// Empty decides whether a contains no string. A witness is a member of a: one with the
// fewest runes and, of these, one of the most readable (lower-case letters first, then
// digits, other printable ASCII, other letters, everything else).
func Empty(a *Lang, budget Budget) Answer { return find(a, budget) }

// find decides whether l is empty; a witness is a member.
func find(l *Lang, budget Budget) Answer {
	budget = budget.orDefault()
	d := &decision{
		query:  newQuery(l, budget),
		budget: budget,
	}
	answer := d.run()
	budget.count(answer.Spent)
	return answer
}

func newQuery(l *Lang, budget Budget) *query {
	return &query{
		lang:    l.orNone(),
		m:       &meter{limit: Spent{States: budget.States, Steps: budget.Steps}},
		regexes: map[string]int{},

		conjunctions: maxConjunctions,
	}
}

// decision is a query that is being decided.
type decision struct {
	*query
	budget Budget
	best   candidate
	gaps   []string // what could not be decided
}

// candidate is the best member found so far.
type candidate struct {
	ok     bool
	text   string
	length int64
	cost   int64
}

// better reports whether a is the better witness.
func (a candidate) better(b candidate) bool {
	if a.ok != b.ok {
		return a.ok
	}
	return a.compare(b) < 0
}

// compare orders strings by length and then by readability.
func (a candidate) compare(b candidate) int {
	return cmp.Or(cmp.Compare(a.length, b.length), cmp.Compare(a.cost, b.cost), cmp.Compare(a.text, b.text))
}

func newCandidate(s string) candidate {
	c := candidate{ok: true, text: s}
	for _, r := range s {
		c.length++
		c.cost += int64(cost(r))
	}
	return c
}

func (d *decision) run() Answer {
	tasks, ok := d.tasks()
	if !ok {
		return Answer{Reason: fmt.Sprintf("the combination of constraints is too large (%d parts and more)", min(d.lang.size, maxSize)), Spent: d.m.spent}
	}
	for i, t := range tasks {
		if d.best.ok && t.first > d.best.length {
			break
		}
		part := d.m.share(len(tasks) - i)
		d.solve(t, part)
		d.m.add(part)
	}
	if !d.best.ok && len(d.gaps) > 0 {
		d.guess(tasks)
	}
	answer := Answer{Spent: d.m.spent}
	switch {
	case d.best.ok:
		answer.Verdict, answer.Witness, answer.Shortest = Refuted, d.best.text, len(d.gaps) == 0
	case len(d.gaps) > 0:
		answer.Reason = d.gaps[0]
		if n := len(d.gaps) - 1; n > 0 {
			answer.Reason += fmt.Sprintf(" (and %d more)", n)
		}
	default:
		answer.Verdict = Proved
	}
	return answer
}

// attempts are the ways to search, each with its part of the remaining budget.
var attempts = [...]struct {
	nondet bool
	parts  int
}{{false, 8}, {true, 2}, {false, 1}}

// solve looks for the best member of one task.
func (d *decision) solve(t task, m *meter) {
	last := t.last
	if d.best.ok {
		last = min(last, d.best.length)
	}
	// A deterministic search is fastest if it fits into the budget. If sets explode, a non-deterministic search may succeed, which leaves
	// out states below visited ones. Other questions only need more budget for the first search.
	for i, attempt := range attempts {
		part := m.share(attempt.parts)
		p := newProduct(d.query, t.conj, false, part)
		p.nondet = attempt.nondet
		s := newSearch(p)
		f, ok := s.run(t.first, last)
		m.add(part)
		switch {
		case part.over:
			if i == len(attempts)-1 {
				d.gaps = append(d.gaps, part.spentOf(d.budget)+" on "+d.describe(t.conj))
				return
			}
			continue
		case !ok:
		case f.length > int64(d.budget.Runes):
			d.gaps = append(d.gaps, d.tooLong(f.length, t.conj))
		default:
			if c := newCandidate(s.text(f)); c.better(d.best) {
				d.best = c
			}
		}
		return
	}
}

func (d *decision) tooLong(length int64, conj []*expr) string {
	return fmt.Sprintf("a string of %d runes, more than the %d allowed, in %s", length, d.budget.Runes, d.describe(conj))
}

// describe names the leaves of a conjunction for a message.
func (d *decision) describe(conj []*expr) string {
	seen := map[int]bool{}
	var kids []*Lang
	for _, e := range conj {
		e.walk(func(int) truth { return open }, func(leaf *expr) {
			if !seen[leaf.leaf] {
				seen[leaf.leaf] = true
				kids = append(kids, d.leaves[leaf.leaf])
			}
		})
	}
	return Intersect(kids...).String()
}

// Guessing: the number of strings that are tried for each task, and the additional part of the budget for all of it.
const (
	guesses    = 24
	guessShare = 2
)

// guess runs after a failed search. It tries a few strings that satisfy the uncomplemented demands of the tasks. A string that it finds
// is a witness, but a shorter one may exist.
func (d *decision) guess(tasks []task) {
	m := &meter{limit: Spent{States: d.budget.States / guessShare, Steps: d.budget.Steps / guessShare}}
	for i, t := range tasks {
		demand := task{first: t.first, last: min(t.last, int64(d.budget.Runes))}
		if demand.first > demand.last {
			continue
		}
		for _, e := range t.conj {
			if e.op == exprLeaf && !e.neg {
				demand.conj = append(demand.conj, e)
			}
		}
		part := m.share(len(tasks) - i)
		half := part.share(2)
		list := d.sample(demand, guesses, true, half)
		part.add(half)
		for _, s := range list {
			if in := d.lang.match(s, part, map[*Lang]bool{}); part.over {
				break
			} else if c := newCandidate(s); in && c.better(d.best) {
				d.best = c
			}
		}
		m.add(part)
	}
	d.m.add(m)
}
