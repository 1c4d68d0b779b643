package celrule

// When is a sum certainly at most a constant? For example, (self.size() > 0 ? self[0].l.size() : 0) + (self.size() > 1 ? self[1].l.size() :
// 0) is at most 16 if no list l has more than 8 items.

import (
	"slices"

	"github.com/google/cel-go/common/operators"
)

// atMostConst reads e as "sum is at most a constant".
func atMostConst(e *expr) (sum *expr, most int64, ok bool) {
	if e.kind != call || len(e.args) != 2 {
		return nil, 0, false
	}
	a, b := e.args[0], e.args[1]
	switch e.name {
	case operators.LessEquals, operators.Less:
	case operators.GreaterEquals, operators.Greater:
		a, b = b, a
	default:
		return nil, 0, false
	}
	most, ok = b.val.(int64)
	if e.name == operators.Less || e.name == operators.Greater {
		most--
	}
	return a, most, ok && b.kind == literal
}

// appendSummands appends the parts of a sum from left to right; an expression that is no sum is its only part.
func appendSummands(e *expr, out []*expr) []*expr {
	if e.kind == call && e.name == operators.Add && len(e.args) == 2 {
		return appendSummands(e.args[1], appendSummands(e.args[0], out))
	}
	return append(out, e)
}

// eachWithin says that each part is from 0 to most. If parts are about the items of a list at several indices, it says so once, for all
// items.
func eachWithin(parts []*expr, most int64) []*expr {
	var out []*expr
	said := map[string]bool{}
	for _, p := range parts {
		x := withinZeroAnd(p, most)
		if l, body, ok := ofItem(p, most); ok {
			v := &expr{kind: ident, name: itemName}
			x = allOf(l, v, withinZeroAnd(body, most))
		}
		if text := canonicalText(x); !said[text] {
			said[text] = true
			out = append(out, x)
		}
	}
	return out
}

// itemName stands for an item; no rule can have it as a name.
const itemName = "@item"

// ofItem reads (l.size() > i ? E(l[i]) : c), with a constant c from 0 to most, as E of an item of l.
func ofItem(p *expr, most int64) (l, body *expr, ok bool) {
	if p.kind != call || p.name != operators.Conditional {
		return nil, nil, false
	}
	there, other := p.args[0], p.args[2]
	if c, isInt := other.val.(int64); other.kind != literal || !isInt || c < 0 || c > most || there.kind != call || there.name != operators.Greater {
		return nil, nil, false
	}
	size, i := there.args[0], there.args[1]
	index, isInt := i.val.(int64)
	if i.kind != literal || !isInt || index < 0 || size.kind != call || size.name != "size" || len(size.args) != 1 {
		return nil, nil, false
	}
	l = size.args[0]
	body, ok = itemFor(p.args[1], canonicalText(l), index)
	return l, body, ok
}

// itemFor replaces l[i] by the item; it returns false if e mentions anything else.
func itemFor(e *expr, l string, i int64) (*expr, bool) {
	if e.kind == call && e.name == operators.Index && len(e.args) == 2 && e.args[1].kind == literal && e.args[1].val == i && canonicalText(e.args[0]) == l {
		return &expr{kind: ident, name: itemName}, true
	}
	if e.kind == ident || e.binders() > 0 {
		return nil, false
	}
	out := *e
	out.args = slices.Clone(e.args)
	for k, a := range e.args {
		x, ok := itemFor(a, l, i)
		if !ok {
			return nil, false
		}
		out.args[k] = x
	}
	return &out, true
}

// withinZeroAnd says that e is from 0 to most.
func withinZeroAnd(e *expr, most int64) *expr {
	limit := func(op string, n int64) *expr {
		return &expr{kind: call, name: op, args: []*expr{e, {kind: literal, val: n}}}
	}
	return &expr{kind: call, name: operators.LogicalAnd, args: []*expr{limit(operators.GreaterEquals, 0), limit(operators.LessEquals, most)}}
}

// allOf is l.all(v, body).
func allOf(l, v, body *expr) *expr {
	return &expr{kind: call, member: true, name: "all", args: []*expr{l, v, body}}
}
