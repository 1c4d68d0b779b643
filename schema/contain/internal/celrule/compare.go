package celrule

import (
	"math"
	"strings"
	"unicode/utf8"

	"sluice.dev/schema/contain/internal/logic"
)

// comparing translates <, <=, > and >=.
func comparing(o ordering) func(*translator, *expr, sval, sval) (value, error) {
	return func(t *translator, _ *expr, a, b sval) (value, error) { return t.compare(o, a, b) }
}

// compare evaluates <, <=, > and >=.
func (t *translator) compare(o ordering, a, b sval) (value, error) {
	if r, ok := compareNumbers(o, a, b); ok {
		return just(r), nil
	}
	if r, ok := compareStrings(o, a, b); ok {
		return just(r), nil
	}
	_, an := a.(numV)
	_, bn := b.(numV)
	switch {
	case an && bn || orderable(typeName(a), typeName(b)):
		return t.relation(o, a, b)
	case otherType(a, b):
		return nil, nil // no such overload
	}
	return nil, errUnsupported
}

// compareNumbers compares two numbers of which one at least is constant.
func compareNumbers(o ordering, a, b sval) (boolV, bool) {
	x, xc := constNum(a)
	y, yc := constNum(b)
	n, xn := a.(numV)
	m, yn := b.(numV)
	switch {
	case xc && yc:
		return boolConst(o.holds(x.compare(y))), true
	case xn && yc:
		tr, fa := n.compareConst(o, y)
		return boolV{tr, fa}, true
	case xc && yn:
		tr, fa := m.compareConst(o.flip(), x)
		return boolV{tr, fa}, true
	}
	return boolV{}, false
}

// compareStrings compares two strings of which one at least is constant.
func compareStrings(o ordering, a, b sval) (boolV, bool) {
	x, xc := a.(strV)
	y, yc := b.(strV)
	fits := func(s strAt, c strV) bool { return s.plain() && len(c) <= maxOrdered && utf8.ValidString(string(c)) }
	if xc && yc {
		return boolConst(o.holds(sign(x < y, x > y))), true
	}
	if s, ok := a.(strAt); ok && yc && fits(s, y) {
		return ordered(s, o, string(y)), true
	}
	if s, ok := b.(strAt); ok && xc && fits(s, x) {
		return ordered(s, o.flip(), string(x)), true
	}
	return boolV{}, false
}

// orderable tells whether < compares values of two types.
func orderable(a, b string) bool {
	switch a {
	case "string", "bytes", durationType, "google.protobuf.Timestamp":
		return a == b
	}
	return numeric(a) && numeric(b)
}

// otherType tells whether two values, one of them dynamic, are certainly of different types.
func otherType(a, b sval) bool {
	ta, tb := typeName(a), typeName(b)
	return (isDyn(a) || isDyn(b)) && ta != "" && tb != "" && ta != tb
}

// relation compares two values that exist, and about which nothing else is known.
func (t *translator) relation(o ordering, a, b sval) (value, error) {
	if o == gt || o == ge {
		a, b, o = b, a, o.flip()
	}
	valid := whereValid(a, b)
	// a < b and !(b <= a) are the same statement: the operands that are written first decide the form.
	x, ok := t.term(a)
	y, ok2 := t.term(b)
	if !ok || !ok2 {
		return nil, errUnsupported
	}
	name, flip := o.text(), false
	if y.order() < x.order() {
		x, y = y, x
		name, flip = map[string]string{"<": "<=", "<=": "<"}[name], true
	}
	r := t.predicate(apply(name, "bool", false, x, y))
	if flip {
		r = boolV{r.f, r.t}
	}
	n, ok := a.(numV)
	m, ok2 := b.(numV)
	if ok && ok2 && r.t.op == opLeaf {
		c := pivot(n, m)
		less, notLess := n.compareConst(o, c)
		atLeast, _ := m.compareConst(ge, c)
		atMost, _ := m.compareConst(le, c)
		r = certain(r, and(less, atLeast), and(notLess, atMost))
	}
	return value{}.add(valid, r), nil
}

// whereValid says that the numbers among values are there.
func whereValid(vs ...sval) *cond {
	out := yes
	for _, v := range vs {
		if n, ok := v.(numV); ok {
			out = and(out, n.valid())
		}
	}
	return out
}

// certain adds to an opaque statement where it certainly is true, and where it is false. The meaning stays the same, but
// values that show it can be found.
func certain(r boolV, t, f *cond) boolV {
	return boolV{or(t, and(not(f), r.t)), or(f, and(not(t), r.f))}
}

// pivot returns a number between two others, of which the first is the greater one, if their bounds allow that.
func pivot(n, m numV) num {
	low, _, ok := n.limits()
	mlow, _, ok2 := m.limits()
	_, high, _ := n.limits()
	c := 0.0
	switch {
	case n.typ == durationType:
		c = 60e9
	case ok2 && mlow > math.Inf(-1):
		c = mlow
	case ok && low > math.Inf(-1):
		c = low
	}
	if high <= c {
		c = high - 1
	}
	if typeName(n) == "double" {
		return num{dbl: true, d: c}
	}
	return num{i: int64(max(min(c, 1e18), -1e18))}
}

// limits returns the bounds of the schema for a number without further computation.
func (n numV) limits() (low, high float64, ok bool) {
	low, high = math.Inf(-1), math.Inf(1)
	var r ref
	switch b := n.base.(type) {
	case intAt:
		r = b.ref
	case floatAt:
		r = b.ref
	case sizeAt:
		return 0, high, true
	default:
		return low, high, false
	}
	if len(n.ops) > 1 || len(n.ops) == 1 && n.ops[0].text != "double" {
		return low, high, false
	}
	if r.node.Minimum != nil {
		low = *r.node.Minimum
	}
	if r.node.Maximum != nil {
		high = *r.node.Maximum
	}
	return low, high, true
}

// equalOpaque makes an opaque statement that two scalars are equal more certain.
func (t *translator) equalOpaque(a, b sval, r boolV) boolV {
	if r.t.op != opLeaf {
		return r
	}
	switch x := a.(type) {
	case numV:
		y, ok := b.(numV)
		if !ok {
			return r
		}
		c := pivot(x, y)
		xIs, _ := x.compareConst(eq, c)
		yIs, _ := y.compareConst(eq, c)
		xLow, xHigh := x.compareConst(le, c)
		yLow, yHigh := y.compareConst(le, c)
		return certain(r, and(xIs, yIs), or(and(xLow, yHigh), and(xHigh, yLow)))
	case strAt:
		y, ok := b.(strAt)
		if ok && x.at.equal(y.at) {
			if y.fold == 0 {
				x, y = y, x
			}
			if x.plain() && y.text() == (strAt{fold: y.fold, hi: -1}).text() { // changing the case changes nothing
				upper := matching(x.ref, map[byte]string{'l': "[A-Z]", 'u': "[a-z]"}[y.fold])
				return boolV{upper.f, upper.t}
			}
		}
		if !ok || !x.plain() || !y.plain() {
			return r
		}
		k := int64(1)
		for _, n := range []*int64{x.node.MinLength, y.node.MinLength} {
			if n != nil {
				k = max(k, min(*n, 1000))
			}
		}
		sample := []string{strings.Repeat("a", int(k))}
		xLow, xHigh := newNum(sizeAt{x.ref, logic.String}).compareConst(le, num{i: k})
		yLow, yHigh := newNum(sizeAt{y.ref, logic.String}).compareConst(le, num{i: k})
		return certain(r, and(t.oneOf(x, sample).t, t.oneOf(y, sample).t), or(and(xLow, yHigh), and(xHigh, yLow)))
	}
	return r
}
