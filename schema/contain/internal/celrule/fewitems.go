package celrule

import (
	"errors"

	"sluice.dev/schema/contain/internal/logic"
)

// What of a macro that no formula can express? It is decided for the empty list, for one item and for two equal ones. For example, that two items of a list
// differ in a field is certainly false of lists with one.

// Sizes of statements about short lists, and bounds of statements about all, beyond which they are left out: the larger
// a formula, the longer a proof with it.
const (
	maxBounds = 80
	maxRegion = 160
)

// decideFewItems decides a macro that no formula can express for all lists: for an empty list, for one item, and for two equal ones. Other lists
// are opaque.
func (t *translator) decideFewItems(e *expr, env *variable, c ref, why error) (value, error) {
	if t.standIn != nil {
		return nil, errUnsupported
	}
	o, err := t.opaqueStatement(e, env)
	if err != nil {
		return nil, err
	}
	var m mixed
	if errors.As(why, &m) && m.sure.t.size+m.sure.f.size+m.maybe.t.size+m.maybe.f.size <= maxBounds {
		o = boolV{orConds(m.sure.t, andConds(m.maybe.t, o.t)), orConds(m.sure.f, andConds(m.maybe.f, o.f))}
	}
	if c.node.Type != "array" {
		return singleBranch(o), nil
	}
	size := sizeAt{c, logic.Array}
	twice := leafCond(c.at, logic.Unique{Neg: true})
	regions := []*cond{size.indexWithin(0, 0), size.indexWithin(1, 1), andConds(size.indexWithin(2, 2), twice)}
	rest := andConds(size.indexWithin(2, maxSize), orConds(size.indexWithin(3, maxSize), leafCond(c.at, logic.Unique{})))
	if c.node.ListType == "set" || c.node.ListType == "map" { // has no equal items
		regions, rest = regions[:2], size.indexWithin(2, maxSize)
	}
	var out value
	for n, region := range regions {
		mark := len(t.asides)
		r, err := t.evalWithCopies(e, env, c, n)
		if err != nil || r.t.size+r.f.size > maxRegion {
			t.asides = t.asides[:mark]
		}
		switch {
		case errors.Is(err, errUnsupported) || errors.Is(err, errMixed):
			rest = orConds(rest, region)
		case err != nil:
			return nil, err
		case r.t.size+r.f.size > maxRegion:
			rest = orConds(rest, region)
		default:
			out = out.addBranch(region, r)
		}
	}
	return out.addBranch(rest, o), nil
}

// evalWithCopies evaluates e as if the list had the same item n times.
func (t *translator) evalWithCopies(e *expr, env *variable, list ref, n int) (boolV, error) {
	c, err := t.newCompr(list)
	if err != nil {
		return boolV{}, err
	}
	defer t.dropScopes(c)
	l := listV{}
	for range n {
		l.elems = append(l.elems, element{c.elem, yes, no})
	}
	t.standIn = &listStandIn{of: list, by: l}
	defer func() { t.standIn = nil }()
	v, err := t.evalValue(e, env)
	if err != nil {
		return boolV{}, err
	}
	b, err := t.asBool(v, nil)
	if err != nil || n == 0 {
		return b, err
	}
	// All items are the same: a statement about one is a statement about all.
	tr, err := c.newQuantifier(true).quantifyCond(b.t)
	if err != nil {
		return boolV{}, err
	}
	fa, err := c.newQuantifier(true).quantifyCond(b.f)
	return boolV{tr, fa}, err
}
