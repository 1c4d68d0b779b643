package celrule

// When is a sum certainly at most a constant? For example, (self.size() > 0 ? self[0].l.size() : 0) + (self.size() > 1 ? self[1].l.size() :
// 0) is at most 16 if no list l has more than 8 items.

import (
	"slices"

	"github.com/google/cel-go/common/operators"
)

// turnedOperators are the comparisons that comparedWithConst reads, each with the one that is the same if the operands change places.
var turnedOperators = map[string]string{
	operators.Less: operators.Greater, operators.LessEquals: operators.GreaterEquals, operators.Equals: operators.Equals,
	operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
}

// comparedWithConst reads e as a comparison of x with an integer constant n, which may stand on either side: op is the operator with n on the
// right.
func comparedWithConst(e *expr) (x *expr, op string, n int64, ok bool) {
	if e.kind != call || len(e.args) != 2 || turnedOperators[e.name] == "" {
		return nil, "", 0, false
	}
	x, op = e.args[0], e.name
	other := e.args[1]
	if x.kind == literal {
		x, other, op = other, x, turnedOperators[op]
	}
	n, ok = other.val.(int64)
	return x, op, n, ok && other.kind == literal
}

// atMostConst reads e as "sum is at most a constant".
func atMostConst(e *expr) (sum *expr, most int64, ok bool) {
	sum, op, most, ok := comparedWithConst(e)
	if op == operators.Less {
		most--
	}
	return sum, most, ok && (op == operators.Less || op == operators.LessEquals)
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
	other := p.args[2]
	if c, isInt := other.val.(int64); other.kind != literal || !isInt || c < 0 || c > most {
		return nil, nil, false
	}
	size, op, index, ok := comparedWithConst(p.args[0])
	if !ok || op != operators.Greater || index < 0 || size.kind != call || size.name != "size" || len(size.args) != 1 {
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
