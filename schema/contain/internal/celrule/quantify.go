package celrule

import (
	"errors"
	"math/bits"
	"slices"

	"sluice.dev/schema/contain/internal/logic"
)

// errMixed says that a statement relates several scopes in a way that no formula can express.
var errMixed = errors.New("relates two values")

// mixed is errMixed with bounds: when the result is certainly true, and when it may be true.
type mixed struct{ sure, maybe boolV }

func (mixed) Error() string        { return errMixed.Error() }
func (mixed) Is(target error) bool { return target == errMixed }

// without replaces relations: by false for the case that c certainly holds, by true for the case that it may hold.
func without(c *cond, by bool) *cond {
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
		kids[i] = without(k, by)
	}
	if c.op == opAnd {
		return and(kids...)
	}
	return or(kids...)
}

// bounds quantifies c. If that cannot be expressed, the two results differ.
func (q quantifier) bounds(c *cond) (sure, maybe *cond, err error) {
	x, err := q.over(c)
	if err == nil || !c.rels {
		return x, x, err
	}
	if sure, err = q.over(without(c, false)); err != nil {
		return nil, nil, err
	}
	maybe, err = q.over(without(c, true))
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
	// dict is the map with the keys and values, nil for a list.
	dict *ref
	// spend fails when too much was done.
	spend func(n int) error
}

// over returns the quantified statement. It fails with errMixed if the statement relates values in a way that no formula can express.
func (q quantifier) over(c *cond) (*cond, error) { return q.split(c, maxSplit) }

// outside quantifies a statement that does not mention the scope: true of an empty range as well for all, false of it for some.
func (q quantifier) outside(c *cond) *cond {
	s := bits.TrailingZeros64(q.mask)
	switch {
	case q.all && c.op != opTrue:
		return or(c, q.wrap(s, logic.False))
	case !q.all && c.op != opFalse:
		return and(c, q.wrap(s, logic.True))
	}
	return c
}

// apart divides the other junction: what does not mention the scope stands outside.
func (q quantifier) apart(c *cond) (outer, inner []*cond) {
	for _, k := range c.kids {
		if k.scopes&q.mask == 0 {
			outer = append(outer, k)
		} else {
			inner = append(inner, k)
		}
	}
	return outer, inner
}

func (q quantifier) split(c *cond, budget int) (*cond, error) {
	if err := q.spend(c.size / 16); err != nil {
		return nil, err
	}
	if c.scopes&q.mask == 0 {
		return q.outside(c), nil
	}
	if c.alone != nil && q.list != nil && q.list.at.equal(c.alone.list.at) && c.neg != q.all {
		return leaf(q.list.at, logic.Unique{By: c.alone.by, Neg: c.neg}), nil
	}
	if bits.OnesCount64(c.scopes) == 1 && !c.rels {
		f, ok := emit(c)
		if !ok {
			return nil, errMixed
		}
		return q.wrap(bits.TrailingZeros64(c.scopes), f), nil
	}
	op, joined, other := opOr, or, and
	if q.all {
		op, joined, other = opAnd, and, or
	}
	if c.op == op {
		parts := make([]*cond, len(c.kids))
		for i, k := range c.kids {
			p, err := q.split(k, budget)
			if err != nil {
				return nil, err
			}
			parts[i] = p
		}
		return joined(parts...), nil
	}
	if len(c.kids) == 0 {
		return nil, errMixed
	}
	if q.list == nil && !c.rels {
		if k, ok := q.byKeys(c); ok {
			return k, nil
		}
	}
	outer, inner := q.apart(c)
	if len(outer) > 0 {
		p, err := q.split(other(inner...), budget)
		if err != nil {
			return nil, err
		}
		return other(append(outer, p)...), nil
	}
	return q.byCases(c, budget)
}

// byCases quantifies for the case that a part about other scopes holds, and for the case that it does not.
func (q quantifier) byCases(c *cond, budget int) (*cond, error) {
	atom := foreign(c, q.mask)
	if budget == 0 || atom == nil {
		return nil, errMixed
	}
	t, err := q.split(assume(c, atom, true), budget-1)
	if err != nil {
		return nil, err
	}
	f, err := q.split(assume(c, atom, false), budget-1)
	if err != nil {
		return nil, err
	}
	return or(and(atom, t), and(not(atom), f)), nil
}

// foreign finds a largest part of c that does not mention the scope.
func foreign(c *cond, mask uint64) *cond {
	if c.scopes&mask == 0 && c.scopes != 0 {
		return c
	}
	for _, k := range c.kids {
		if f := foreign(k, mask); f != nil {
			return f
		}
	}
	return nil
}

// assume replaces the part atom, and the parts that its value decides. If atom is true, these are the parts that it implies. If it is
// false, they are the parts that imply it.
func assume(c, atom *cond, value bool) *cond {
	switch {
	case c == atom && value || value && implies(atom, c):
		return yes
	case c == atom || !value && implies(c, atom):
		return no
	case c.scopes&atom.scopes == 0 || len(c.kids) == 0:
		return c
	}
	kids := make([]*cond, len(c.kids))
	for i, k := range c.kids {
		kids[i] = assume(k, atom, value)
	}
	if c.op == opAnd {
		return and(kids...)
	}
	return or(kids...)
}

// implies reports whether the leaf b is known to hold whenever the leaf a does.
func implies(a, b *cond) bool {
	if a.op != opLeaf || b.op != opLeaf {
		return false
	}
	// In a conjunction, b adds nothing to a leaf that implies it.
	r := relate(opAnd, a, b)
	return r == same || relate(opAnd, b, a) == stronger
}

// needs reports whether c is known to hold only if the leaf k does.
func (c *cond) needs(k *cond) bool {
	switch c.op {
	case opFalse:
		return true
	case opLeaf:
		return implies(c, k)
	case opAnd:
		return slices.ContainsFunc(c.kids, func(d *cond) bool { return d.needs(k) })
	case opOr:
		return !slices.ContainsFunc(c.kids, func(d *cond) bool { return !d.needs(k) })
	case opTrue, opRel:
	}
	return false
}
