package celrule

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
	present            // one of both holds wherever their place is present
)

// relate says what the second of two parts of a junction does to the first.
func relate(op condOp, a, b *cond) relation {
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
	if a.at.equal(b.at) {
		r := relateFormulas(op, a.f, b.f)
		if r == decides && op == opOr && len(a.at.path) > 0 {
			return present
		}
		return r
	}
	// A leaf further down says that the properties on the way are there.
	switch {
	case op == opOr && below(b, a):
		if h, ok := a.f.(logic.Has); isTrue(a.f) || ok && h.Name == b.at.path[len(a.at.path)].name {
			return same
		}
	case op == opOr && below(a, b):
		if relate(op, b, a) == same {
			return stronger
		}
	case op == opAnd && below(b, a):
		next := b.at.path[len(a.at.path)]
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
	case op == opAnd && below(a, b):
		r := relate(op, b, a)
		if r == stronger {
			return same
		}
		if r == decides {
			return decides
		}
	}
	return unrelated
}

// below tells whether a's place is within one of b's place's properties.
func below(a, b *cond) bool {
	return len(a.at.path) > len(b.at.path) && place{a.at.scope, a.at.path[:len(b.at.path)]}.equal(b.at)
}

func relateFormulas(op condOp, f, g logic.Formula) relation {
	if isTrue(f) == (op == opAnd) && (isTrue(f) || isTrue(g)) {
		return stronger
	}
	if isTrue(f) || isTrue(g) {
		return same
	}
	switch f := f.(type) {
	case logic.Has:
		switch g := g.(type) {
		case logic.Has:
			if f == g {
				return same
			}
		case logic.Lacks:
			if f.Name == g.Name {
				return decides
			}
		}
	case logic.Lacks:
		switch g := g.(type) {
		case logic.Lacks:
			if f == g {
				return same
			}
		case logic.Has:
			if f.Name == g.Name {
				return decides
			}
		}
	case logic.Kinds:
		if g, ok := g.(logic.Kinds); ok {
			switch {
			case f == g:
				return same
			case op == opAnd && f&g == 0:
				return decides
			}
		}
	case logic.Opaque:
		if g, ok := g.(logic.Opaque); ok && f.ID == g.ID {
			if f.Neg == g.Neg {
				return same
			}
			return decides
		}
	case logic.NumItems:
		if g, ok := g.(logic.NumItems); ok {
			return relateRanges(op, f.Min, f.Max, g.Min, g.Max, 0)
		}
	case logic.NumProps:
		if g, ok := g.(logic.NumProps); ok {
			return relateRanges(op, f.Min, f.Max, g.Min, g.Max, 0)
		}
	case logic.Length:
		if g, ok := g.(logic.Length); ok {
			return relateRanges(op, f.Min, f.Max, g.Min, g.Max, 0)
		}
	case logic.IntRange:
		if g, ok := g.(logic.IntRange); ok {
			return relateRanges(op, f.Lo, f.Hi, g.Lo, g.Hi, math.MinInt64)
		}
	case logic.Pattern, logic.FloatRange:
		if f == g {
			return same
		}
	case logic.Enum:
		if g, ok := g.(logic.Enum); ok && reflect.DeepEqual(f.Values, g.Values) {
			if f.Neg == g.Neg {
				return same
			}
			return decides
		}
	}
	return unrelated
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
