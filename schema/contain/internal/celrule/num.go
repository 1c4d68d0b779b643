package celrule

// For which values does a number that steps compute from another one satisfy a comparison? For example, 10 - self.a > 3 is true of integers
// a from the least one that does not overflow to 6.

import (
	"math"
	"strconv"

	"sluice.dev/schema/contain/internal/logic"
)

// asFloat is the number as a double, as CEL's double() rounds it.
func (n num) asFloat() float64 {
	if n.dbl {
		return n.d
	}
	return float64(n.i)
}

// compareTo is what CEL computes for numbers that are not NaN (compareDoubleInt in github.com/google/cel-go/common/types).
func (n num) compareTo(m num) int {
	switch {
	case !n.dbl && !m.dbl:
		return signOf(n.i < m.i, n.i > m.i)
	case !n.dbl && m.dbl:
		return -m.compareTo(n)
	case n.dbl && !m.dbl && n.d < math.MinInt64:
		return -1
	case n.dbl && !m.dbl && n.d > math.MaxInt64:
		return 1
	}
	a, b := n.asFloat(), m.asFloat()
	return signOf(a < b, a > b)
}

// signOf is -1, 1 or 0 for less, more or neither.
func signOf(less, more bool) int {
	if less {
		return -1
	}
	if more {
		return 1
	}
	return 0
}

// applyStep adds a step, which is decreasing if down is set. Numbers for which the step fails must be at one or both ends.
func (n numV) applyStep(op numOp, down bool) numV {
	ok := func(i int64) bool { _, ok := op.f(n.numberAt(i)); return ok }
	lo, hi := n.lo, n.hi
	if lo <= hi && (!ok(lo) || !ok(hi)) {
		// Somewhere between there may be a part without error: it includes the index whose number is nearest to zero,
		// because the steps that fail do so for numbers that are too large in one direction or the other.
		mid := n.firstIndexWhere(func(x num) bool { return (x.compareTo(num{}) >= 0) != n.down })
		mid = min(max(mid, lo), hi)
		if !ok(mid) && mid > lo && ok(mid-1) {
			mid--
		}
		if !ok(mid) {
			lo, hi = 0, -1
		} else {
			lo = firstWhere(lo, mid, ok)
			hi = firstWhere(mid, hi, func(i int64) bool { return !ok(i) })
			if !ok(hi) {
				hi--
			}
		}
	}
	ops := make([]numOp, len(n.ops)+1)
	copy(ops, n.ops)
	ops[len(n.ops)] = op
	return numV{base: n.base, lo: lo, hi: hi, ops: ops, down: n.down != down, dyn: n.dyn, typ: n.typ}
}

// firstIndexWhere returns the smallest index for whose number f is true, f being false before it and true from it on; the index
// after the largest (or the largest, where there is none after it) if there is none.
func (n numV) firstIndexWhere(f func(num) bool) int64 {
	return firstWhere(n.lo, n.hi, func(i int64) bool { return f(n.numberAt(i)) })
}

// firstWhere returns the smallest i in [lo, hi] with f(i), f being monotone; hi where there is none.
func firstWhere(lo, hi int64, f func(int64) bool) int64 {
	for lo < hi {
		mid := lo/2 + hi/2 + (lo%2+hi%2)/2 // without overflow, and less than hi
		if mid == hi || mid < lo {
			mid = lo
		}
		if f(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// signRange is a range of indices, both ends inclusive, whose numbers compare alike with another number.
type signRange struct {
	lo, hi int64
	sign   int // as of compareTo
}

// splitAround divides the indices by how their numbers compare with c: up to three ranges, in the order of the indices. The numbers only grow, or
// only fall, with the index, so each range is found by bisection.
func (n numV) splitAround(c num) (out []signRange) {
	sign := func(i int64) int { return n.numberAt(i).compareTo(c) }
	for lo := n.lo; lo <= n.hi; {
		s := sign(lo)
		hi := firstWhere(lo, n.hi, func(i int64) bool { return sign(i) != s })
		if sign(hi) != s {
			hi--
		}
		out = append(out, signRange{lo, hi, s})
		if hi == math.MaxInt64 { // there is no next index
			break
		}
		lo = hi + 1
	}
	return out
}

// condOfRanges says that the index is in one of the ranges, which are in order. It is nil where no formula can say that.
func (n numV) condOfRanges(ranges []signRange) *cond {
	var merged []signRange
	for _, r := range ranges {
		if last := len(merged) - 1; last >= 0 && merged[last].hi == r.lo-1 {
			merged[last].hi = r.hi
		} else {
			merged = append(merged, r)
		}
	}
	var out []*cond
	for _, r := range merged {
		c := n.base.indexWithin(r.lo, r.hi)
		if c == nil {
			return nil
		}
		out = append(out, c)
	}
	return orConds(out...)
}

// ordering is an operator that compares.
type ordering uint8

const (
	lt ordering = iota
	le
	eq
	ge
	gt
)

func (o ordering) flip() ordering { return gt - o }

// holdsForSign reports whether the operator is true of two numbers of which a comparison gives the sign: negative
// where the first is less.
func (o ordering) holdsForSign(sign int) bool {
	switch o {
	case lt:
		return sign < 0
	case le:
		return sign <= 0
	case eq:
		return sign == 0
	case ge:
		return sign >= 0
	case gt:
	}
	return sign > 0
}

func (o ordering) operatorSymbol() string { return [...]string{"<", "<=", "==", ">=", ">"}[o] }

// compareConst returns the conditions for which the comparison of n with c is true, and false; nil where no formula can say that.
func (n numV) compareConst(o ordering, c num) (t, f *cond) {
	var holds, fails []signRange
	for _, r := range n.splitAround(c) {
		if o.holdsForSign(r.sign) {
			holds = append(holds, r)
		} else {
			fails = append(fails, r)
		}
	}
	if t, f = n.condOfRanges(holds), n.condOfRanges(fails); t == nil || f == nil {
		return nil, nil
	}
	return t, f
}

// whenValid says when n has a value: where none of its steps has overflown. It is nil where no formula can say that.
func (n numV) whenValid() *cond {
	if n.lo > n.hi {
		return no
	}
	lo, hi := n.base.indexBounds()
	if n.lo == lo && n.hi == hi {
		return yes
	}
	return n.base.indexWithin(n.lo, n.hi)
}

// constNum reads a constant number; a duration counts as its nanoseconds. Not ok for all other values.
func constNum(v sval) (num, bool) {
	switch v := v.(type) {
	case intV:
		return num{i: int64(v)}, true
	case dblV:
		return num{dbl: true, d: float64(v)}, true
	case durV:
		return num{i: int64(v)}, true
	}
	return num{}, false
}

// toDouble is the conversion double(x).
func toDouble(x num) (num, bool) { return num{dbl: true, d: x.asFloat()}, true }

// computeInt computes a op b as CEL does for int, with checks for overflow and for division by zero.
func computeInt(op byte, a, b int64) (int64, bool) {
	switch op {
	case '-':
		d := a - b
		return d, (b >= 0) == (d <= a)
	case '*':
		p := a * b
		return p, a == 0 || p/a == b && (a != -1 || b != math.MinInt64)
	case '/':
		if b == 0 || a == math.MinInt64 && b == -1 {
			return 0, false
		}
		return a / b, true
	}
	s := a + b
	return s, (b >= 0) == (s >= a)
}

// withConst computes n op c, or c op n if flipped, of type int; not ok for double, and where the result does not grow or fall with n.
func (n numV) withConst(op byte, c int64, flipped bool) (numV, bool) {
	if n.lo > n.hi || n.numberAt(n.lo).dbl || (op == '*' || op == '/') && c == 0 || op == '/' && flipped {
		return n, false
	}
	step := numOp{
		f: func(x num) (num, bool) {
			a, b := x.i, c
			if flipped {
				a, b = b, a
			}
			r, ok := computeInt(op, a, b)
			return num{i: r}, ok
		},
		text: string(op) + strconv.FormatInt(c, 10),
	}
	if flipped && op != '*' {
		step.text = strconv.FormatInt(c, 10) + string(op)
	}
	down := flipped && op == '-' || op != '+' && op != '-' && c < 0
	return n.applyStep(step, down), true
}

// asValue returns n as a value. It is an error of the rule if a step has failed.
func (n numV) asValue() (value, error) {
	valid := n.whenValid()
	if valid == nil {
		return nil, errUnsupported
	}
	return value{}.addBranch(valid, n), nil
}

// intAt is an Int at a place.
type intAt struct{ ref }

func (b intAt) indexBounds() (int64, int64) { return math.MinInt64, math.MaxInt64 }
func (b intAt) numberAt(i int64) num        { return num{i: i} }

// indexWithin says that there is an integer in the range. The full range is that of the kind: a float without
// fraction is no int in CEL.
func (b intAt) indexWithin(lo, hi int64) *cond {
	if lo == math.MinInt64 && hi == math.MaxInt64 {
		return leafCond(b.at, logic.Kinds(logic.Int))
	}
	return leafCond(b.at, logic.IntRange{Lo: lo, Hi: hi})
}
func (b intAt) asTerm() (termV, bool) { return termV{text: mark, refs: []ref{b.ref}}, true }

// floatAt is a Float at a place. The index orders the floats.
type floatAt struct{ ref }

// floatIndex numbers the floats in their order: the bits of a positive float grow with it, and those of a negative
// one are turned round. -0 comes right before 0, though both are equal in CEL.
func floatIndex(f float64) int64 {
	b := int64(math.Float64bits(math.Abs(f))) //nolint:gosec // the sign bit is not set
	if math.Signbit(f) {
		return ^b
	}
	return b
}

// indexFloat is the float with the index, the reverse of floatIndex.
func indexFloat(i int64) float64 {
	if i < 0 {
		return -indexFloat(^i)
	}
	return math.Float64frombits(uint64(i))
}

func (b floatAt) indexBounds() (int64, int64) {
	return floatIndex(-math.MaxFloat64), floatIndex(math.MaxFloat64)
}
func (b floatAt) numberAt(i int64) num { return num{dbl: true, d: indexFloat(i)} }

// indexWithin says that there is a float in the range. A range that begins or ends with the last finite float has no
// bound there.
func (b floatAt) indexWithin(lo, hi int64) *cond {
	r := logic.FloatRange{Lo: indexFloat(lo), Hi: indexFloat(hi)}
	least, most := b.indexBounds()
	if lo == least {
		r.Lo = math.Inf(-1)
	}
	if hi == most {
		r.Hi = math.Inf(1)
	}
	if lo == least && hi == most {
		return leafCond(b.at, logic.Kinds(logic.Float))
	}
	return leafCond(b.at, r)
}
func (b floatAt) asTerm() (termV, bool) { return termV{text: mark, refs: []ref{b.ref}}, true }

// maxSize is larger than any string, list or map can be.
const maxSize = 1 << 40

// sizeAt is the size of a string, a list or a map at a place.
type sizeAt struct {
	ref
	kind logic.Kind
}

func (b sizeAt) indexBounds() (int64, int64) { return 0, maxSize }
func (b sizeAt) numberAt(i int64) num        { return num{i: i} }

// indexWithin says that the size is in the range. That the value is there is said elsewhere, so the full range says
// nothing.
func (b sizeAt) indexWithin(lo, hi int64) *cond {
	if hi >= maxSize {
		hi = logic.Unbounded
	}
	if lo == 0 && hi == logic.Unbounded {
		return leafCond(b.at, logic.True)
	}
	if b.kind == logic.String {
		return leafCond(b.at, logic.Length{Min: lo, Max: hi})
	}
	if b.kind == logic.Array {
		return leafCond(b.at, logic.NumItems{Min: lo, Max: hi})
	}
	return leafCond(b.at, logic.NumProps{Min: lo, Max: hi})
}

func (b sizeAt) asTerm() (termV, bool) {
	return termV{text: operatorText("size", mark), refs: []ref{b.ref}}, true
}

// extremeAt is the least or the greatest item of a list of integers at a place that has items. Its branch says that they are there.
type extremeAt struct {
	ref
	greatest bool
}

func (b extremeAt) indexBounds() (int64, int64) { return math.MinInt64, math.MaxInt64 }
func (b extremeAt) numberAt(i int64) num        { return num{i: i} }

// indexWithin says that no item lies beyond one end, and one does not lie beyond the other.
func (b extremeAt) indexWithin(lo, hi int64) *cond {
	all, one := logic.IntRange{Lo: lo, Hi: math.MaxInt64}, logic.IntRange{Lo: math.MinInt64, Hi: hi}
	if b.greatest {
		all, one = one, all
	}
	return leafCond(b.at, logic.And{logic.Kinds(logic.Array), logic.Items{F: logic.And{logic.Kinds(logic.Int), all}}, logic.SomeItem{F: logic.And{logic.Kinds(logic.Int), one}}})
}

// asTerm names the value by the function that gives it.
func (b extremeAt) asTerm() (termV, bool) {
	name := "min"
	if b.greatest {
		name = "max"
	}
	return termV{text: operatorText(name, mark), refs: []ref{b.ref}}, true
}
