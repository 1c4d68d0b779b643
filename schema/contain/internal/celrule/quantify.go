package celrule

// How is a statement about an item said about the list? For example, self.l.all(x, x > 1 || self.b) is "b, or all items are over 1".

import (
	"math/bits"
	"slices"

	"sluice.dev/schema/contain/internal/logic"
)

// withoutRelations replaces relations: by false for the case that c certainly holds, by true for the case that it may hold.
func withoutRelations(c *cond, by bool) *cond {
	switch {
	case !c.rels:
		return c
	case c.op == opRel && by:
		return yes
	case c.op == opRel:
		return no
	}
	kids := make([]*cond, len(c.kids))
	for i, k := range c.kids {
		kids[i] = withoutRelations(k, by)
	}
	if c.op == opAnd {
		return andConds(kids...)
	}
	return orConds(kids...)
}

// quantifyBounds quantifies c. If that cannot be expressed, the two results differ.
func (q quantifier) quantifyBounds(c *cond) (sure, maybe *cond, err error) {
	x, err := q.quantifyCond(c)
	if err == nil || !c.rels {
		return x, x, err
	}
	if sure, err = q.quantifyCond(withoutRelations(c, false)); err != nil {
		return nil, nil, err
	}
	maybe, err = q.quantifyCond(withoutRelations(c, true))
	return sure, maybe, err
}

// maxSplit bounds the statements about outer scopes that one macro is split by.
const maxSplit = 8

// quantifier says "for all" or "for some" of the values of one scope, or of the keys and values of a map, which are two.
type quantifier struct {
	all  bool
	mask uint64
	// wrap turns a formula about a value of the scope into the statement about the range.
	wrap func(s scope, f logic.Formula) *cond
	// list is the list with the values, nil for a map.
	list *ref
	// spend fails when too much was done.
	spend func(n int) error
}

// quantifyCond returns the quantified statement. It fails with errMixed if the statement relates values in a way that no formula can express.
func (q quantifier) quantifyCond(c *cond) (*cond, error) { return q.quantifyWithin(c, maxSplit) }

// quantifyOutside quantifies a statement that does not mention the scope: true of an empty range as well for all, false of it for some.
func (q quantifier) quantifyOutside(c *cond) *cond {
	s := bits.TrailingZeros64(q.mask)
	switch {
	case q.all && c.op != opTrue:
		return orConds(c, q.wrap(s, logic.False))
	case !q.all && c.op != opFalse:
		return andConds(c, q.wrap(s, logic.True))
	}
	return c
}

// divideByScope divides the other junction: what does not mention the scope stands outside.
func (q quantifier) divideByScope(c *cond) (outer, inner []*cond) {
	for _, k := range c.kids {
		if k.scopes&q.mask == 0 {
			outer = append(outer, k)
		} else {
			inner = append(inner, k)
		}
	}
	return outer, inner
}

// quantifyWithin is quantifyCond with a bound on how often a statement is split by cases. A statement about one scope becomes a formula about
// the items; one about several is taken apart until each part is about one.
func (q quantifier) quantifyWithin(c *cond, budget int) (*cond, error) {
	if err := q.spend(c.size / 16); err != nil {
		return nil, err
	}
	if c.scopes&q.mask == 0 {
		return q.quantifyOutside(c), nil
	}
	// "Each item is the only one of its kind" is what a list without equal items says.
	if c.alone != nil && q.list != nil && q.list.at.equalPlace(c.alone.list.at) && c.neg != q.all {
		return leafCond(q.list.at, logic.Unique{By: c.alone.by, Neg: c.neg}), nil
	}
	// A statement about the item alone is one formula about all items, or about some item.
	if bits.OnesCount64(c.scopes) == 1 && !c.rels {
		f, ok := emitFormula(c)
		if !ok {
			return nil, errMixed
		}
		return q.wrap(bits.TrailingZeros64(c.scopes), f), nil
	}
	switch {
	case len(c.kids) == 0:
		return nil, errMixed
	case (c.op == opAnd) == q.all:
		return q.quantifyEach(c, budget)
	}
	return q.quantifyInner(c, budget)
}

// quantifyEach quantifies each part: for all of a conjunction, for some of a disjunction.
func (q quantifier) quantifyEach(c *cond, budget int) (*cond, error) {
	parts := make([]*cond, len(c.kids))
	for i, k := range c.kids {
		p, err := q.quantifyWithin(k, budget)
		if err != nil {
			return nil, err
		}
		parts[i] = p
	}
	if q.all {
		return andConds(parts...), nil
	}
	return orConds(parts...), nil
}

// quantifyInner quantifies the parts that mention the scope: for all of a disjunction, for some of a conjunction.
func (q quantifier) quantifyInner(c *cond, budget int) (*cond, error) {
	outer, inner := q.divideByScope(c)
	if len(outer) == 0 {
		return q.byCases(c, budget)
	}
	join := andConds
	if q.all {
		join = orConds
	}
	p, err := q.quantifyWithin(join(inner...), budget)
	if err != nil {
		return nil, err
	}
	return join(append(outer, p)...), nil
}

// byCases quantifies for the case that a part about other scopes holds, and for the case that it does not.
func (q quantifier) byCases(c *cond, budget int) (*cond, error) {
	atom := largestForeignPart(c, q.mask)
	if budget == 0 || atom == nil {
		return nil, errMixed
	}
	t, err := q.quantifyWithin(assumeAtom(c, atom, true), budget-1)
	if err != nil {
		return nil, err
	}
	f, err := q.quantifyWithin(assumeAtom(c, atom, false), budget-1)
	if err != nil {
		return nil, err
	}
	return orConds(andConds(atom, t), andConds(notCond(atom), f)), nil
}

// largestForeignPart finds a largest part of c that does not mention the scope.
func largestForeignPart(c *cond, mask uint64) *cond {
	if c.scopes&mask == 0 && c.scopes != 0 {
		return c
	}
	for _, k := range c.kids {
		if f := largestForeignPart(k, mask); f != nil {
			return f
		}
	}
	return nil
}

// assumeAtom replaces the part atom, and the parts that its value decides. If atom is true, these are the parts that it implies. If it is
// false, they are the parts that imply it.
func assumeAtom(c, atom *cond, value bool) *cond {
	switch {
	case c == atom && value || value && leafImplies(atom, c):
		return yes
	case c == atom || !value && leafImplies(c, atom):
		return no
	case c.scopes&atom.scopes == 0 || len(c.kids) == 0:
		return c
	}
	kids := make([]*cond, len(c.kids))
	for i, k := range c.kids {
		kids[i] = assumeAtom(k, atom, value)
	}
	if c.op == opAnd {
		return andConds(kids...)
	}
	return orConds(kids...)
}

// leafImplies reports whether the leaf b is known to hold whenever the leaf a does.
func leafImplies(a, b *cond) bool {
	if a.op != opLeaf || b.op != opLeaf {
		return false
	}
	// In a conjunction, b adds nothing to a leaf that implies it.
	r := relateConds(opAnd, a, b)
	return r == same || relateConds(opAnd, b, a) == stronger
}

// needsLeaf reports whether c is known to hold only if the leaf k does.
func (c *cond) needsLeaf(k *cond) bool {
	switch c.op {
	case opFalse:
		return true
	case opLeaf:
		return leafImplies(c, k)
	case opAnd:
		return slices.ContainsFunc(c.kids, func(d *cond) bool { return d.needsLeaf(k) })
	case opOr:
		return !slices.ContainsFunc(c.kids, func(d *cond) bool { return !d.needsLeaf(k) })
	case opTrue, opRel:
	}
	return false
}
