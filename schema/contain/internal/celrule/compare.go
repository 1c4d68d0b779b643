package celrule

// When is a < b true, and when false? For example, self.a < 5 is a range of integers, and self.a < self.b is an opaque part of which some
// certain cases are known.

import (
	"math"
	"strings"

	"sluice.dev/schema/contain/internal/logic"
)

// comparisonBy translates <, <=, > and >=.
func comparisonBy(o ordering) func(*translator, *expr, sval, sval) (value, error) {
	return func(t *translator, _ *expr, a, b sval) (value, error) { return t.evalComparison(o, a, b) }
}

// evalComparison evaluates <, <=, > and >=.
func (t *translator) evalComparison(o ordering, a, b sval) (value, error) {
	if r, ok := compareNumbers(o, a, b); ok {
		return singleBranch(r), unsupportedUnless(r.t != nil)
	}
	_, an := a.(numV)
	_, bn := b.(numV)
	switch {
	// No formula compares two values that are both not constant. The comparison gets a name, and a few certain cases.
	case an && bn || orderable(a.typeName(), b.typeName()):
		return t.compareOpaque(o, a, b)
	case otherType(a, b):
		return nil, nil // no such overload
	}
	return nil, errUnsupported
}

// compareNumbers compares two numbers of which one at least is constant. The result is nil where no formula can say it.
func compareNumbers(o ordering, a, b sval) (boolV, bool) {
	x, xc := constNum(a)
	y, yc := constNum(b)
	n, xn := a.(numV)
	m, yn := b.(numV)
	switch {
	case xc && yc:
		return boolConst(o.holdsForSign(x.compareTo(y))), true
	case xn && yc:
		tr, fa := n.compareConst(o, y)
		return boolV{tr, fa}, true
	case xc && yn:
		tr, fa := m.compareConst(o.flip(), x)
		return boolV{tr, fa}, true
	}
	return boolV{}, false
}

// orderable tells whether < compares values of two types.
func orderable(a, b string) bool {
	switch a {
	case "string", "bytes", durationType, "google.protobuf.Timestamp":
		return a == b
	}
	return isNumericType(a) && isNumericType(b)
}

// otherType tells whether two values, one of them dynamic, are certainly of different types.
func otherType(a, b sval) bool {
	ta, tb := a.typeName(), b.typeName()
	return (isDyn(a) || isDyn(b)) && ta != "" && tb != "" && ta != tb
}

// compareOpaque compares two values that exist, and about which nothing else is known.
func (t *translator) compareOpaque(o ordering, a, b sval) (value, error) {
	if o == gt || o == ge {
		a, b, o = b, a, o.flip()
	}
	x, y, swapped, ok := t.termsInOrder(a, b)
	if !ok {
		return nil, errUnsupported
	}
	valid := whereValid(a, b)
	written := o
	if swapped { // a < b and !(b <= a) are the same statement
		written = map[ordering]ordering{lt: le, le: lt}[o]
	}
	r := t.predicateOf(functionTerm(written.operatorSymbol(), "bool", false, x, y))
	if swapped {
		r = boolV{r.f, r.t}
	}
	// A number between both shows some values for which the answer is certain, so that the search for a witness does
	// not depend on the opaque part alone.
	n, ok := a.(numV)
	m, ok2 := b.(numV)
	if ok && ok2 && r.t.op == opLeaf {
		c := numberBetween(n, m)
		less, notLess := n.compareConst(o, c)
		atLeast, _ := m.compareConst(ge, c)
		atMost, _ := m.compareConst(le, c)
		r = addCertainCases(r, andConds(less, atLeast), andConds(notLess, atMost))
	}
	return value{}.addBranch(valid, r), nil
}

// whereValid says that the numbers among values are there.
func whereValid(vs ...sval) *cond {
	out := yes
	for _, v := range vs {
		if n, ok := v.(numV); ok {
			out = andConds(out, n.whenValid())
		}
	}
	return out
}

// addCertainCases adds to an opaque statement where it certainly is true, and where it is false. The meaning stays the same, but
// values that show it can be found.
func addCertainCases(r boolV, t, f *cond) boolV {
	return boolV{orConds(t, andConds(notCond(f), r.t)), orConds(f, andConds(notCond(t), r.f))}
}

// numberBetween returns a number between two others, of which the first is the greater one, if their bounds allow that.
func numberBetween(n, m numV) num {
	low, _, ok := n.schemaLimits()
	mlow, _, ok2 := m.schemaLimits()
	_, high, _ := n.schemaLimits()
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
	if n.typeName() == "double" {
		return num{dbl: true, d: c}
	}
	return num{i: int64(max(min(c, 1e18), -1e18))}
}

// schemaLimits returns the bounds of the schema for a number without further computation.
func (n numV) schemaLimits() (low, high float64, ok bool) {
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
		c := numberBetween(x, y)
		xIs, _ := x.compareConst(eq, c)
		yIs, _ := y.compareConst(eq, c)
		xLow, xHigh := x.compareConst(le, c)
		yLow, yHigh := y.compareConst(le, c)
		return addCertainCases(r, andConds(xIs, yIs), orConds(andConds(xLow, yHigh), andConds(xHigh, yLow)))
	case strAt:
		y, ok := b.(strAt)
		if ok && x.at.equalPlace(y.at) {
			if y.fold.kind == 0 {
				x, y = y, x
			}
			if x.isPlain() && y.idText() == (strAt{fold: y.fold, hi: -1}).idText() {
				changed := matchesPattern(x.ref, y.fold.changesPattern())
				return boolV{changed.f, changed.t}
			}
		}
		if !ok || !x.isPlain() || !y.isPlain() {
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
		return addCertainCases(r, andConds(t.oneOf(x, sample).t, t.oneOf(y, sample).t), orConds(andConds(xLow, yHigh), andConds(xHigh, yLow)))
	}
	return r
}
