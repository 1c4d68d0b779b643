package celrule

// Does one of two statements imply or exclude the other? For example, of "at least 2 items" and "at least 3 items" a conjunction keeps the
// latter. This keeps formulas small.

import (
	"math"
	"reflect"

	"sluice.dev/schema/contain/internal/logic"
)

type relation uint8

const (
	unrelated relation = iota
	same               // the second adds nothing
	stronger           // the second makes the first unnecessary
	decides            // both together decide
	present            // if their place is present, one of them holds
)

// relateConds returns the effect of the second of two parts of a junction on the first.
func relateConds(op condOp, a, b *cond) relation {
	if a == b {
		return same
	}
	if a.op == opRel && b.op == opRel && a.id == b.id && a.scopes == b.scopes {
		if a.neg == b.neg {
			return same
		}
		return decides
	}
	if a.op != opLeaf || b.op != opLeaf || a.at.scope != b.at.scope {
		return unrelated
	}
	if a.at.equalPlace(b.at) {
		r := relateFormulas(op, a.f, b.f)
		if r == decides && op == opOr && len(a.at.path) > 0 {
			return present
		}
		return r
	}
	switch {
	case leafIsBelow(b, a):
		return relateBelow(op, a, b)
	case leafIsBelow(a, b):
		return relateBelow(op, b, a).swapped()
	}
	return unrelated
}

// relateBelow relates b, whose place is within a's. A leaf further down says that the properties on the way are there.
func relateBelow(op condOp, a, b *cond) relation {
	next := b.at.path[len(a.at.path)]
	if op == opOr {
		if h, ok := a.f.(logic.Has); isTrue(a.f) || ok && h.Name == next.name {
			return same
		}
		return unrelated
	}
	if isTrue(a.f) {
		return stronger
	}
	switch f := a.f.(type) {
	case logic.Has:
		if f.Name == next.name && !next.only {
			return stronger
		}
	case logic.Lacks:
		if f.Name == next.name && !next.only {
			return decides
		}
	case logic.NumItems:
		switch {
		case next.only && f == one:
			return stronger
		case next.only && (f.Min > 1 || f.Max < 1):
			return decides
		}
	}
	return unrelated
}

// swapped is the relation of the second part to the first.
func (r relation) swapped() relation {
	switch r {
	case same:
		return stronger
	case stronger:
		return same
	case unrelated, decides, present:
	}
	return r
}

// leafIsBelow tells whether a's place is within one of b's place's properties.
func leafIsBelow(a, b *cond) bool {
	return len(a.at.path) > len(b.at.path) && place{a.at.scope, a.at.path[:len(b.at.path)]}.equalPlace(b.at)
}

func relateFormulas(op condOp, f, g logic.Formula) relation {
	if isTrue(f) == (op == opAnd) && (isTrue(f) || isTrue(g)) {
		return stronger
	}
	if isTrue(f) || isTrue(g) {
		return same
	}
	if lo, hi, least, ok := countRange(f); ok && reflect.TypeOf(f) == reflect.TypeOf(g) {
		lo2, hi2, _, _ := countRange(g)
		return relateRanges(op, lo, hi, lo2, hi2, least)
	}
	return relateAtoms(op, f, g)
}

// relateAtoms is about formulas that are either the same, opposites or unrelated.
func relateAtoms(op condOp, f, g logic.Formula) relation {
	switch f := f.(type) {
	case logic.Has:
		g2, ok := g.(logic.Lacks)
		return equalOrOpposite(f == g, ok && f.Name == g2.Name)
	case logic.Lacks:
		g2, ok := g.(logic.Has)
		return equalOrOpposite(f == g, ok && f.Name == g2.Name)
	case logic.Kinds:
		g2, ok := g.(logic.Kinds)
		return equalOrOpposite(f == g, ok && op == opAnd && f&g2 == 0)
	case logic.Opaque:
		g2, ok := g.(logic.Opaque)
		ok = ok && f.ID == g2.ID
		return equalOrOpposite(ok && f.Neg == g2.Neg, ok)
	case logic.Enum:
		g2, ok := g.(logic.Enum)
		ok = ok && reflect.DeepEqual(f.Values, g2.Values)
		return equalOrOpposite(ok && f.Neg == g2.Neg, ok)
	case logic.Pattern, logic.FloatRange:
		return equalOrOpposite(f == g, false)
	}
	return unrelated
}

func equalOrOpposite(equal, opposite bool) relation {
	switch {
	case equal:
		return same
	case opposite:
		return decides
	}
	return unrelated
}

// countRange reads a formula that bounds a whole number, which is never less than least.
func countRange(f logic.Formula) (lo, hi, least int64, ok bool) {
	switch f := f.(type) {
	case logic.NumItems:
		return f.Min, f.Max, 0, true
	case logic.NumProps:
		return f.Min, f.Max, 0, true
	case logic.Length:
		return f.Min, f.Max, 0, true
	case logic.IntRange:
		return f.Lo, f.Hi, math.MinInt64, true
	}
	return 0, 0, 0, false
}

// relateRanges is about two ranges of one number.
func relateRanges(op condOp, lo, hi, lo2, hi2, least int64) relation {
	switch {
	case op == opAnd && (hi < lo2 || hi2 < lo):
		return decides
	case lo <= lo2 && hi2 <= hi: // the second is within the first
		if op == opAnd {
			return stronger
		}
		return same
	case lo2 <= lo && hi <= hi2:
		if op == opAnd {
			return same
		}
		return stronger
	case op == opOr && min(lo, lo2) <= least && max(hi, hi2) == math.MaxInt64 && (hi < lo2 && hi == lo2-1 || hi2 < lo && hi2 == lo-1):
		return decides
	}
	return unrelated
}
