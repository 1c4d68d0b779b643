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
	x, xc := constNum(a)
	y, yc := constNum(b)
	n, xn := a.(numV)
	m, yn := b.(numV)
	switch {
	case xc && yc:
		return just(boolConst(o.holds(x.compare(y)))), nil
	case xn && yc:
		tr, fa := n.compareConst(o, y)
		return just(boolV{tr, fa}), nil
	case xc && yn:
		tr, fa := m.compareConst(o.flip(), x)
		return just(boolV{tr, fa}), nil
	case xn && yn:
		return t.relation(o, a, b)
	}
	sa, sac := a.(strV)
	sb, sbc := b.(strV)
	if sac && sbc {
		return just(boolConst(o.holds(sign(sa < sb, sa > sb)))), nil
	}
	if s, ok := a.(strAt); ok && sbc && s.plain() && len(sb) <= maxOrdered && utf8.ValidString(string(sb)) {
		return just(ordered(s, o, string(sb))), nil
	}
	if s, ok := b.(strAt); ok && sac && s.plain() && len(sa) <= maxOrdered && utf8.ValidString(string(sa)) {
		return just(ordered(s, o.flip(), string(sa))), nil
	}
	ta, tb := typeName(a), typeName(b)
	if ta != "" && ta == tb {
		switch ta {
		case "string", "bytes", "google.protobuf.Duration", "google.protobuf.Timestamp", "int", "double":
			return t.relation(o, a, b)
		}
	}
	numeric := func(s string) bool { return s == "int" || s == "double" || s == "uint" }
	if numeric(ta) && numeric(tb) {
		return t.relation(o, a, b)
	}
	if (isDyn(a) || isDyn(b)) && ta != "" && tb != "" && ta != tb {
		return nil, nil // no such overload
	}
	return nil, errUnsupported
}

// relation compares two values of which nothing is known but that both are there.
func (t *translator) relation(o ordering, a, b sval) (value, error) {
	if o == gt || o == ge {
		a, b, o = b, a, o.flip()
	}
	valid := yes
	for _, v := range []sval{a, b} {
		if n, ok := v.(numV); ok {
			valid = and(valid, n.valid())
		}
	}
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

// certain adds to an opaque statement where it certainly is true, and where it is false. The meaning stays the same, but
// values that show it can be found.
func certain(r boolV, t, f *cond) boolV {
	return boolV{or(t, and(not(f), r.t)), or(f, and(not(t), r.f))}
}

// pivot returns a number that stands between two others where the first is the greater, if their bounds allow that.
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

// limits returns the bounds that the schema sets to a number as it stands.
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
