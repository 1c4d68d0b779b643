package celrule

import (
	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// Over what does a macro go? A range has a scope for its items, or two for the keys and the values of a map. For example, that all items are over 5
// is a statement about the list.

// newCompr makes a scope for the values in a list or a map. The caller drops it if it is not kept.
func (t *translator) newCompr(r ref) (*compr, error) {
	c := &compr{t: t, of: r, scope: len(t.nodes), pred: boolConst(true)}
	if len(t.nodes)+2 > maxScopes {
		return nil, errUnsupported
	}
	switch {
	case r.node.Type == "array" && r.node.Items != nil:
		t.nodes = append(t.nodes, r.node.Items)
		t.ranges = append(t.ranges, rangeOf{of: r})
	case isMap(r.node):
		t.nodes = append(t.nodes, &schema.Node{Type: "string"}, r.node.Additional)
		t.ranges = append(t.ranges, rangeOf{of: r, key: true}, rangeOf{of: r})
	default:
		return nil, errUnsupported
	}
	v, err := t.loadPlace(place{scope: c.scope}, t.nodes[c.scope])
	c.elem = v
	return c, err
}

// dropScopes forgets the scopes from c's on.
func (t *translator) dropScopes(c *compr) {
	t.nodes, t.ranges = t.nodes[:c.scope], t.ranges[:c.scope]
}

// newQuantifier goes over all of the list, counted or not.
func (c *compr) newQuantifier(all bool) quantifier {
	q := quantifier{all: all, mask: 1 << c.scope, spend: c.t.chargeWork}
	said := c.saidOfSome
	if all {
		said = c.saidOfAll
	}
	q.wrap = func(s scope, f logic.Formula) *cond { return leafCond(c.of.at, said(s == c.scope, f)) }
	if c.isList() {
		q.list = &c.of
	} else {
		q.mask |= 2 << c.scope // the keys, and the values
	}
	return q
}

func (c *compr) isList() bool { return c.of.node.Type == "array" }

// saidOfAll is true of the lists whose items all satisfy f, or of the maps whose keys or values do.
func (c *compr) saidOfAll(key bool, f logic.Formula) logic.Formula {
	switch {
	case isTrue(f):
		return logic.True
	case c.isList() && isFalse(f):
		return logic.NumItems{Min: 0, Max: 0}
	case c.isList():
		return logic.Items{F: f}
	case isFalse(f):
		return logic.NumProps{Min: 0, Max: 0}
	case key:
		return logic.AllKeys{F: f}
	}
	return logic.Rest{F: f}
}

// saidOfSome is true of the lists with an item that satisfies f, or of the maps with such a key or value.
func (c *compr) saidOfSome(key bool, f logic.Formula) logic.Formula {
	switch {
	case c.isList() && isTrue(f):
		return logic.NumItems{Min: 1, Max: logic.Unbounded}
	case c.isList():
		return logic.SomeItem{F: f}
	case isTrue(f):
		return logic.NumProps{Min: 1, Max: logic.Unbounded}
	case key:
		return logic.SomeKey{F: f}
	}
	return logic.SomeRest{F: f}
}

// whenValid says when a strict list is no error.
func (c *compr) whenValid() (*cond, error) {
	if !c.strict {
		return yes, nil
	}
	d, err := c.elem.whenDefined()
	if err != nil {
		return nil, err
	}
	return c.newQuantifier(true).quantifyCond(orConds(c.pred.f, andConds(c.pred.t, d)))
}
