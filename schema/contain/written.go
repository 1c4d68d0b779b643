package contain

// Which form have values that storage and clients write? For example, 1.0 is written as 1.

import (
	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/celrule"
	"sluice.dev/schema/contain/internal/logic"
)

// writtenAt is true of the values at p in the form that storage and nearly all clients write: an integer has no fraction. Go's
// encoding/json writes the float64 1.0 as 1, which is read as an int64 (k8s.io/apimachinery/pkg/util/json), so that no stored object
// holds 1.0 and nothing that kubectl sends does. Nor is there a list in place of a string that has a format (see [ListsLetThrough]), or
// a time that CEL cannot read. It only says where to look for candidates first: a proof has to hold for all values.
func (t *translator) writtenAt(p place) logic.Formula {
	if p.kind != declared || !t.hasOdd(p.node, 0) {
		return logic.True
	}
	// There are many candidates, and the formula is evaluated for each.
	key := p.cacheKey()
	return logic.Lazy{ID: writtenKey{key}, Make: func() logic.Formula {
		if f, ok := t.writes[key]; ok {
			return f
		}
		out := append(t.writtenHere(p), p.partsSatisfy(t.writtenAt)...)
		t.writes[key] = out
		return out
	}}
}

// writtenHere is writtenAt without the parts of the value. Of a list of type map it says which items differ.
func (t *translator) writtenHere(p place) (out logic.And) {
	n := p.node
	if kinds, integral := typeKinds(n); integral {
		out = append(out, logic.Kinds(logic.AnyKind&^logic.Float))
	} else if kinds&logic.Float != 0 {
		out = append(out, logic.Integral{Neg: true, Exact: true})
	}
	if t.letsListsThrough(p) {
		out = append(out, logic.Kinds(logic.AnyKind&^logic.Array))
	}
	if t.effectiveFormat(n) == "datetime" {
		out = append(out, logic.Pattern{Expr: celrule.TimeText})
	}
	if n.ListType == "map" && len(n.ListMapKeys) == 1 { // numbers in this form differ in their text, too
		by := t.equalByKeys(n, n.ListMapKeys)
		by.Numbers = true
		out = append(out, logic.Unique{By: by})
	}
	return out
}

// hasOdd reports whether written restricts the node, or a part of it.
func (t *translator) hasOdd(n *schema.Node, depth int) bool {
	if n == nil || depth > schema.MaxDepth {
		return false
	}
	if has, ok := t.odd[n]; ok {
		return has
	}
	kinds, _ := typeKinds(n)
	has := kinds&logic.Float != 0 || t.letsListsThrough(place{node: n}) || t.hasOdd(n.Items, depth+1) || t.hasOdd(n.Additional, depth+1)
	for i := 0; i < len(n.Properties) && !has; i++ {
		has = t.hasOdd(n.Properties[i].Node, depth+1)
	}
	t.odd[n] = has
	return has
}
