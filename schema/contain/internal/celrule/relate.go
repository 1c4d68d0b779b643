package celrule

// Does one of two statements imply or exclude the other? For example, of "at least 2 items" and "at least 3 items" a conjunction keeps the
// latter. This keeps formulas small.
//
// Two parts are related only if their forms show it, in constant time. What is missed makes a formula longer and
// never wrong.

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
	switch {
	case a == b:
		return same
	case a.op == opRel && b.op == opRel && a.id == b.id && a.scopes == b.scopes:
		return equalOrOpposite(a.neg == b.neg, true)
	case a.op != opLeaf || b.op != opLeaf || a.at.scope != b.at.scope:
		return unrelated
	case a.at.equalPlace(b.at):
		r := relateFormulas(op, a.f, b.f)
		if r == decides && op == opOr && len(a.at.path) > 0 {
			return present
		}
		return r
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
	holds, fails := impliesStep(next, a.f)
	switch {
	case op == opOr && holds && a.f != logic.Formula(one):
		return same
	case op == opOr:
		return unrelated
	case holds:
		return stronger
	case fails:
		return decides
	}
	return unrelated
}

// impliesStep tells whether f is certainly true, or false, of a value with a part at the step.
func impliesStep(next step, f logic.Formula) (holds, fails bool) {
	switch f := f.(type) {
	case logic.And:
		return isTrue(f), false
	case logic.Has:
		return f.Name == next.name && !next.only, false
	case logic.Lacks:
		return false, f.Name == next.name && !next.only
	case logic.NumItems:
		return next.only && f == one, next.only && (f.Min > 1 || f.Max < 1)
	}
	return false, false
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

// relateFormulas relates two formulas about the same place: first if one of them says nothing, then as ranges of the
// same sort, then as statements of one sort that are equal or opposite.
func relateFormulas(op condOp, f, g logic.Formula) relation {
	if isTrue(f) == (op == opAnd) && (isTrue(f) || isTrue(g)) {
		return stronger
	}
	if isTrue(f) || isTrue(g) {
		return same
	}
	// Ranges of different sorts, such as of a length and of a number of items, are about different kinds of values.
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

// equalOrOpposite is the relation of two statements that are equal, opposite, or neither. Opposite ones decide a
// conjunction and a disjunction alike.
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
	within, around := stronger, same // the effect of a second range that is within the first, or around it
	if op == opOr {
		within, around = same, stronger
	}
	switch {
	case op == opAnd && (hi < lo2 || hi2 < lo):
		return decides
	case lo <= lo2 && hi2 <= hi:
		return within
	case lo2 <= lo && hi <= hi2:
		return around
	// Together they cover all numbers, so one of them holds.
	case op == opOr && min(lo, lo2) <= least && max(hi, hi2) == math.MaxInt64 && (endsBefore(hi, lo2) || endsBefore(hi2, lo)):
		return decides
	}
	return unrelated
}

// endsBefore reports whether a range up to hi ends right before one from lo on.
func endsBefore(hi, lo int64) bool { return hi < lo && hi == lo-1 }
