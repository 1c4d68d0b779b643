package celrule

// When does a rule say that items differ? For example, self.all(x, self.exists_one(y, x.name == y.name)) says that names are unique, as a
// list of type map does.
//
// Kubernetes compares the items of such lists by their keys as JSON, and CEL compares values. The two agree for the
// types that plainType and rawEqual let through; for others the macro stays opaque.

import (
	"slices"
	"strconv"
	"strings"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// listType is the comparison of a list-type map or set with such items (see contain's translation of them).
func listType(items *schema.Node, keys []string) logic.UniqueBy {
	if len(keys) == 0 {
		return logic.UniqueBy{Text: !plainType(items)}
	}
	n := items.Property(keys[0])
	return logic.UniqueBy{
		Text: true, Numbers: len(keys) > 1 || n != nil && plainType(n) && n.Type != "integer",
		Keys: strings.Join(keys, "\x00"),
	}
}

// plainType reports whether the values are scalars whose equality is the same in each way to compare that package
// logic knows.
func plainType(n *schema.Node) bool {
	return n.Type == "string" || n.Type == "boolean" || n.Type == "integer"
}

// sameItems counts the items of a list that are equal to another item of the same list, the one at scope x. It is at
// least 1, that item itself.
type sameItems struct {
	x     scope
	alone alone
}

func (b sameItems) indexBounds() (int64, int64) { return 1, maxSize }
func (b sameItems) numberAt(i int64) num        { return num{i: i} }
func (b sameItems) asTerm() (termV, bool)       { return termV{}, false }

// indexWithin says how many items are equal to the one at the scope, itself among them. Only two answers can be said
// of a list: that it is the only one, and that it is not.
func (b sameItems) indexWithin(lo, hi int64) *cond {
	only := relationCond(1<<b.x, "only one by "+strconv.Quote(b.alone.by.Keys), false)
	only.alone = &b.alone
	switch {
	case lo <= 1 && hi >= maxSize:
		return yes
	case lo <= 1 && hi == 1:
		return only
	case lo == 2 && hi >= maxSize:
		return notCond(only)
	}
	return nil
}

// countSame recognises a filtered list that has the items equal to another item of the same list by some keys.
func (t *translator) countSame(c *compr) (value, bool) {
	// The predicate has to mention another item, or it is an ordinary filter.
	if c.of.node.Type != "array" || c.pred.t.scopes&^(1<<c.scope) == 0 {
		return nil, false
	}
	parts := []*cond{c.pred.t}
	if c.pred.t.op == opAnd {
		parts = c.pred.t.kids
	}
	x, paths, ok := c.comparedPlaces(parts)
	if !ok || t.ranges[x].key || !t.ranges[x].of.at.equalPlace(c.of.at) || t.ranges[x].of.node != c.of.node {
		return nil, false
	}
	there, ok := c.presenceParts(parts, x, paths)
	if !ok {
		return nil, false
	}
	items := c.of.node.Items
	var keys []string
	for _, p := range paths {
		if len(p.path) == 0 {
			if len(paths) > 1 {
				return nil, false
			}
			continue
		}
		name := p.path[0].name
		keys = append(keys, name)
		if !items.IsRequired(name) {
			there = append(there, leafCond(p, logic.True))
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	// The comparison by keys counts missing keys as equal, and CEL makes an error of them: both agree where all items
	// have the keys.
	if needed := andConds(there...); needed.op != opTrue {
		all, err := c.newQuantifier(true).quantifyCond(needed)
		if err != nil {
			return nil, false
		}
		strict := !slices.ContainsFunc(there, func(k *cond) bool { return !c.pred.f.needsLeaf(k) })
		t.asides = append(t.asides, aside{x, all, strict})
	}
	return singleBranch(newNum(sameItems{x, alone{c.of, listType(items, keys)}})), true
}

// comparedPlaces returns the places of the items, or of their keys, that must be equal to those of the item at scope x.
func (c *compr) comparedPlaces(parts []*cond) (x scope, paths []place, ok bool) {
	x = -1
	items := c.of.node.Items
	for _, p := range parts {
		if p.equal == nil || p.neg {
			continue
		}
		a, b := p.equal[0], p.equal[1]
		if a.at.scope == c.scope {
			a, b = b, a
		}
		if b.at.scope != c.scope || !slices.Equal(a.at.path, b.at.path) || len(a.at.path) > 1 || a.node.Nullable ||
			len(a.at.path) == 1 && (a.at.path[0].only || items.Type != "object" || isMap(items)) || x >= 0 && a.at.scope != x {
			return x, nil, false
		}
		x = a.at.scope
		paths = append(paths, b.at)
	}
	return x, paths, x >= 0
}

// presenceParts returns what the parts that compare nothing say of the items: only that the keys are there and of their type, or not ok.
func (c *compr) presenceParts(parts []*cond, x scope, paths []place) (there []*cond, ok bool) {
	for _, p := range parts {
		if p.equal != nil {
			continue
		}
		if p.op != opLeaf || p.at.scope != x && p.at.scope != c.scope ||
			!slices.ContainsFunc(paths, func(k place) bool { return slices.Equal(k.path, p.at.path) }) {
			return nil, false
		}
		kinds, isKinds := p.f.(logic.Kinds)
		switch {
		case isKinds && p.at.scope == c.scope:
			there = append(there, leafCond(p.at, kinds))
		case !isKinds && !isTrue(p.f):
			return nil, false
		}
	}
	return there, true
}

// settleAssumptions applies the assumptions about the list of scope s since mark. If they do not hold, and the macro only has a comparison that is
// an error for each item (compares is set), the result is an error. Otherwise, it is the opaque statement.
func (t *translator) settleAssumptions(mark int, s scope, v value, macro string, compares bool, opaque func() (boolV, error)) (value, error) {
	granted, isError := yes, compares
	rest := t.asides[:mark]
	for _, a := range t.asides[mark:] {
		if a.of != s {
			rest = append(rest, a)
			continue
		}
		granted = andConds(granted, a.that)
		isError = isError && a.strict
	}
	t.asides = rest
	if granted.op == opTrue {
		return v, nil
	}
	out := v.guardedBy(granted)
	switch {
	case isError:
		return out, nil
	case macro == "map" || macro == "filter":
		return out.addBranch(notCond(granted), lostV{}), nil
	}
	o, err := opaque()
	if err != nil {
		return nil, err
	}
	return out.addBranch(notCond(granted), o), nil
}
