package celrule

// Does an unchanged rule see the same under two schemas? For example, a new optional field that it does not mention changes nothing.

import "sluice.dev/schema"

// SeesSame reports whether the rule sees the same in a value of o as in the same value of n, once each has filled in its defaults below
// the value. It does if everything that it reads has the same types, formats, topology and defaults on both sides, and so has all of a
// value that it uses as a whole. The value is one that o accepts and n does not prune. Root is as in [Scope], keep says that the
// surroundings of one of them keep its unknown fields.
func (r *Rule) SeesSame(o, n *schema.Node, root, keep bool) bool {
	return r.seesSame(o, n, root, keep, &translator{}, self, oldSelf)
}

// SeesSameOld is SeesSame for what the rule reads of the old value alone. The value may have fields that only n has.
func (r *Rule) SeesSameOld(o, n *schema.Node, root, keep bool) bool {
	return r.seesSame(o, n, root, keep, &translator{fresh: true}, oldSelf)
}

// seesSame compares what the rule reads under both schemas, from the named variables on: self, oldSelf or both. Equal
// schemas need no look at the rule. Both variables start at the same node, because a rule about updates reads old and
// new values by one schema.
func (r *Rule) seesSame(o, n *schema.Node, root, keep bool, t *translator, values ...string) bool {
	if o.Hash() == n.Hash() {
		return true
	}
	touched := func(x *schema.Node) *touch {
		if root {
			x = withMeta(x)
		}
		top := &touch{node: t.seenAsChild(x)}
		u := &toucher{t: t, roots: map[string]*touch{}}
		for _, v := range values {
			u.roots[v] = top
		}
		u.markWhole(r.root, nil)
		return top
	}
	return t.sameTouched(touched(o), touched(n), keep)
}

// sameTouched reports whether the parts that a rule reads are the same. What it uses as a whole has to be the same in all parts; of the rest,
// the parts that it names.
func (t *translator) sameTouched(a, b *touch, keep bool) bool {
	if a.whole || b.whole {
		return t.sameWhole(a.node, b.node, keep, 0)
	}
	if !sameShape(a.node, b.node) || len(a.kids) != len(b.kids) || (a.items == nil) != (b.items == nil) {
		return false
	}
	for name, x := range a.kids {
		y := b.kids[name]
		if y == nil || !filledAlike(a.node, name, x.node, y.node) || !t.sameTouched(x, y, false) {
			return false
		}
	}
	return a.items == nil || schema.SameDefault(a.items.node, b.items.node) && t.sameTouched(a.items, b.items, keep || b.node.PreserveUnknown)
}

// filledAlike tells whether both sides fill in the same for a field, or o demands it, so that no object lacks it.
func filledAlike(o *schema.Node, name string, field, other *schema.Node) bool {
	return schema.SameDefault(field, other) || o.IsRequired(name) && !field.HasDefault
}

// sameShape tells whether both nodes say the same of themselves, for values that o accepts. Null is none of these where o has a
// type and does not allow it, so that it makes no difference whether n does.
func sameShape(o, n *schema.Node) bool {
	if n.Nullable && !o.Nullable && o.Type != "" {
		bare := *n
		bare.Nullable = false
		n = &bare
	}
	return ownShape(o) == ownShape(n)
}

// sameWhole reports whether whole values of both are the same in CEL.
func (t *translator) sameWhole(o, n *schema.Node, keep bool, depth int) bool {
	if o == nil || n == nil || depth > schema.MaxDepth {
		return o == n
	}
	if o, n = t.seenAsChild(o), t.seenAsChild(n); !sameShape(o, n) {
		return false
	}
	keep = keep || n.PreserveUnknown
	return t.samePropertiesWhole(o, n, keep, depth) &&
		(o.Items == nil || n.Items == nil || schema.SameDefault(o.Items, n.Items)) && t.sameWhole(o.Items, n.Items, keep, depth+1) &&
		(o.Additional == nil || n.Additional == nil || schema.SameDefault(o.Additional, n.Additional)) && t.sameWhole(o.Additional, n.Additional, false, depth+1)
}

// samePropertiesWhole is sameWhole for the properties. One that only o declares must not reach n: it is pruned,
// unless n keeps other fields. One that only n declares must not be there: it is in no value of o, unless o keeps
// unknown fields, a default fills it in, or the value is newer than o.
func (t *translator) samePropertiesWhole(o, n *schema.Node, keep bool, depth int) bool {
	for _, p := range o.Properties {
		c := n.Property(p.Name)
		switch {
		case c == nil && !keep && !hasOthers(n): // a value that has it is pruned
		case c == nil || !filledAlike(o, p.Name, p.Node, c) || !t.sameWhole(p.Node, c, false, depth+1):
			return false
		}
	}
	for _, p := range n.Properties {
		// No value of o has it, unless o keeps unknown fields.
		if o.Property(p.Name) == nil && (t.fresh || p.Node.HasDefault || keep || hasOthers(o)) {
			return false
		}
	}
	return true
}

// hasOthers reports whether the node says something about properties that it does not name.
func hasOthers(n *schema.Node) bool { return n.Additional != nil || n.AdditionalBool != nil }
