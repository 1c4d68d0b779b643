package regular

import (
	"cmp"
	"math"
	"slices"
)

// expr is a set in negation normal form, for strings whose length is in one segment: lengths have become constants, and only leaves
// have complements.
type expr struct {
	op   exprOp
	leaf int // of exprLeaf: index into query.leaves
	neg  bool
	kids []*expr
}

type exprOp uint8

const (
	exprFalse exprOp = iota
	exprTrue
	exprLeaf
	exprAnd
	exprOr
)

var (
	exprNone = &expr{op: exprFalse}
	exprAll  = &expr{op: exprTrue}
)

// query is the preparation of a decision about one set: its leaves, numbered, equal
// ones once.
type query struct {
	lang    *Lang
	m       *meter
	leaves  []*Lang
	regexes map[string]int
	// conjunctions is the most parts to split a segment into.
	conjunctions int
}

// task is one part of a query: the strings that satisfy all of conj and have between
// first and last runes.
type task struct {
	conj        []*expr
	first, last int64
}

// tasks splits a query into parts whose union it is, in the order of their lengths. It returns false if the budget does not suffice.
func (q *query) tasks() ([]task, bool) {
	if q.lang.size > maxSize {
		return nil, false
	}
	cuts := q.cuts(q.lang, []int64{0})
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out []task
	for i, first := range cuts {
		last := int64(math.MaxInt64)
		if i+1 < len(cuts) {
			last = cuts[i+1] - 1
		}
		for _, conj := range q.split(q.normal(q.lang, false, first)) {
			q.m.step(len(conj))
			if conj, possible := tidy(conj); possible {
				out = append(out, task{conj: conj, first: first, last: last})
			}
		}
		if q.m.over {
			return nil, false
		}
	}
	return out, true
}

// cuts collects the lengths at which the truth of a length constraint changes.
func (q *query) cuts(l *Lang, cuts []int64) []int64 {
	if l.kind == kindLength {
		cuts = append(cuts, l.first)
		if l.last >= 0 && l.last < math.MaxInt64 {
			cuts = append(cuts, l.last+1)
		}
	}
	for _, k := range l.kids {
		cuts = q.cuts(k, cuts)
	}
	return cuts
}

// normal returns l, or its complement, for the strings of the segment that begins at length.
func (q *query) normal(l *Lang, neg bool, length int64) *expr {
	q.m.step(1)
	if q.m.over {
		return exprNone // the meter is over, which the caller checks
	}
	switch l.kind {
	case kindNone:
		return constant(neg)
	case kindAll:
		return constant(!neg)
	case kindLength:
		in := length >= l.first && (l.last < 0 || length <= l.last)
		return constant(in != neg)
	case kindRegex:
		return &expr{op: exprLeaf, leaf: q.leaf(l), neg: neg}
	case kindNot:
		return q.normal(l.kids[0], !neg, length)
	case kindAnd:
	}
	op, neutral, zero := exprAnd, exprAll, exprNone
	if neg {
		op, neutral, zero = exprOr, exprNone, exprAll
	}
	var kids []*expr
	for _, k := range l.kids {
		e := q.normal(k, neg, length)
		if e.op == zero.op {
			return zero
		}
		if e.op == op {
			kids = append(kids, e.kids...)
		} else if e.op != neutral.op {
			kids = append(kids, e)
		}
	}
	switch len(kids) {
	case 0:
		return neutral
	case 1:
		return kids[0]
	}
	return &expr{op: op, kids: kids}
}

func constant(in bool) *expr {
	if in {
		return exprAll
	}
	return exprNone
}

// leaf numbers l. Leaves with the same key are equal, so a pattern is contained in itself without any search.
func (q *query) leaf(l *Lang) int {
	if i, ok := q.regexes[l.key]; ok {
		return i
	}
	q.regexes[l.key] = len(q.leaves)
	q.leaves = append(q.leaves, l)
	return len(q.leaves) - 1
}

// maxConjunctions bounds the splitting of a query. Beyond it, a disjunction stays
// within a conjunction, where the product handles it.
const maxConjunctions = 64

// split returns conjunctions whose union is e. Small searches, one for each, are
// cheaper than one in the product of everything.
func (q *query) split(e *expr) [][]*expr {
	switch e.op {
	case exprFalse:
		return nil
	case exprTrue:
		return [][]*expr{nil}
	case exprLeaf:
	case exprOr:
		var out [][]*expr
		for _, k := range e.kids {
			if out = append(out, q.split(k)...); len(out) > q.conjunctions {
				return [][]*expr{{e}}
			}
		}
		return out
	case exprAnd:
		var whole []*expr // what is not split
		out := [][]*expr{nil}
		for _, k := range e.kids {
			parts := q.split(k)
			if len(parts) == 1 || len(out)*len(parts) > q.conjunctions {
				whole = append(whole, k)
				continue
			}
			product := make([][]*expr, 0, len(out)*len(parts))
			for _, a := range out {
				for _, b := range parts {
					product = append(product, slices.Concat(a, b))
				}
			}
			out = product
		}
		for i := range out {
			out[i] = slices.Concat(whole, out[i])
		}
		return out
	}
	return [][]*expr{{e}}
}

// tidy drops repetitions from a conjunction and sorts it, leaves first. It returns
// false if the conjunction holds a leaf and its complement.
func tidy(conj []*expr) ([]*expr, bool) {
	sign := func(e *expr) int {
		if e.neg {
			return 1
		}
		return 0
	}
	conj = slices.Clone(conj)
	slices.SortStableFunc(conj, func(a, b *expr) int {
		return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.leaf, b.leaf), cmp.Compare(sign(a), sign(b)))
	})
	out := conj[:0]
	for _, e := range conj {
		if e.op == exprLeaf && len(out) > 0 {
			if last := out[len(out)-1]; last.op == exprLeaf && last.leaf == e.leaf {
				if last.neg != e.neg {
					return nil, false
				}
				continue
			}
		}
		out = append(out, e)
	}
	return out, true
}

// truth is the known value of an expression, or of a leaf in a state.
type truth int8

const (
	never truth = iota - 1
	open
	always
)

func (t truth) not(neg bool) truth {
	if neg {
		return -t
	}
	return t
}

// eval combines the known values of leaves.
func (e *expr) eval(leaf func(int) truth) truth {
	switch e.op {
	case exprFalse:
		return never
	case exprTrue:
		return always
	case exprLeaf:
		return leaf(e.leaf).not(e.neg)
	case exprAnd:
		out := always
		for _, k := range e.kids {
			if out = min(out, k.eval(leaf)); out == never {
				break
			}
		}
		return out
	case exprOr:
		out := never
		for _, k := range e.kids {
			if out = max(out, k.eval(leaf)); out == always {
				break
			}
		}
		return out
	}
	return open
}

// walk calls visit for the leaves of e that can still decide it.
func (e *expr) walk(known func(int) truth, visit func(leaf *expr)) {
	if e.eval(known) != open {
		return
	}
	if e.op == exprLeaf {
		visit(e)
	}
	for _, k := range e.kids {
		k.walk(known, visit)
	}
}
