package celrule

// When is a number of statements true? For example, (has(self.a) ? 1 : 0) + (has(self.b) ? 1 : 0) <= 1 demands that one of both is missing.

import "slices"

// bit is a part of a sum that is 1 if t holds, and 0 if f does.
type bit struct{ t, f *cond }

// sumOf is the number of statements that hold.
type sumOf struct{ bits []bit }

// maxBits bounds the statements that are counted.
const maxBits = 12

func (b sumOf) indexBounds() (int64, int64) { return 0, int64(len(b.bits)) }
func (b sumOf) numberAt(i int64) num        { return num{i: i} }
func (b sumOf) asTerm() (termV, bool)       { return termV{}, false }

// indexWithin says: at least lo hold, and at least len-hi do not.
func (b sumOf) indexWithin(lo, hi int64) *cond {
	ts, fs := make([]*cond, len(b.bits)), make([]*cond, len(b.bits))
	for i, x := range b.bits {
		ts[i], fs[i] = x.t, x.f
	}
	return andConds(atLeast(int(lo), ts), atLeast(len(fs)-int(hi), fs))
}

// atLeast says that n or more of the statements hold.
func atLeast(n int, cs []*cond) *cond {
	switch {
	case n <= 0:
		return yes
	case n > len(cs):
		return no
	case n == 1:
		return orConds(cs...)
	case n == len(cs):
		return andConds(cs...)
	}
	// The first and n-1 of the rest, or n of the rest; from the back, so that each part is made once.
	row := make([]*cond, n+1)
	row[0] = yes
	for i := 1; i <= n; i++ {
		row[i] = no
	}
	for _, c := range slices.Backward(cs) {
		for k := n; k >= 1; k-- {
			row[k] = orConds(andConds(c, row[k-1]), row[k])
		}
	}
	return row[n]
}

// asSum reads a value as a sum of statements, under a guard.
func (v value) asSum() (guard *cond, bits []bit, ok bool) {
	if len(v) == 1 {
		if n, isNum := v[0].v.(numV); isNum && len(n.ops) == 0 {
			s, isSum := n.base.(sumOf)
			return v[0].g, s.bits, isSum
		}
	}
	t, f := no, no
	for _, b := range v {
		switch b.v {
		case intV(0):
			f = orConds(f, b.g)
		case intV(1):
			t = orConds(t, b.g)
		default:
			return nil, nil, false
		}
	}
	return orConds(t, f), []bit{{t, f}}, len(v) == 2
}

// addSums adds two values that are sums of statements.
func addSums(a, b value) (value, bool) {
	g, x, ok := a.asSum()
	h, y, ok2 := b.asSum()
	if !ok || !ok2 || len(x)+len(y) > maxBits {
		return nil, false
	}
	bits := append(append([]bit{}, x...), y...)
	return value{}.addBranch(andConds(g, h), newNum(sumOf{bits})), true
}
