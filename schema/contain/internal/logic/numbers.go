package logic

// Which number satisfies all that is known? In a small range each integer is tried, which may be a proof that there is none. In a large one
// those near the bounds and multiples are. For example, for "over 5 and divided by 4" it tries 8.

import (
	"math"
	"slices"
)

const fewInts = 4096

// solveInt tries all integers of a small range, which may be a proof that there is none, and likely ones of a large range.
func (s *Solver) solveInt(st *state, want int) ([]any, bool) {
	lo, hi := st.ints.Lo, st.ints.Hi
	for _, no := range st.intMults {
		if no.Neg && (no.N == 1 || slices.ContainsFunc(st.intMults, func(m IntMultiple) bool { return !m.Neg && m.N%no.N == 0 })) {
			return nil, true // what m divides, its divisors divide
		}
	}
	if size := uint64(hi) - uint64(lo); size < fewInts { //nolint:gosec // two's complement makes the difference right
		var all []any
		for i := lo; ; i++ {
			all = append(all, i)
			if i == hi {
				break
			}
		}
		return s.keepUnrefused(st, all, want), true
	}
	out := s.keepUnrefused(st, st.likelyInts(), want)
	if len(out) == 0 {
		s.recordReason("no integer found in a large range")
	}
	return out, false
}

// likelyInts returns integers that are worth a try in a large range.
func (st *state) likelyInts() (out []any) {
	lo, hi := st.ints.Lo, st.ints.Hi
	try := func(v int64) {
		if v >= lo && v <= hi && !slices.Contains(out, any(v)) {
			out = append(out, v)
		}
	}
	// Multiples near both ends and near zero, and the number after each, which is none.
	for _, m := range st.intMults {
		for _, base := range []int64{0, lo, hi} {
			m.eachNear(base, func(v int64) { try(v); try(v + 1) })
		}
	}
	for _, v := range []int64{1, 0, 2, 3, 10, -1} {
		try(v)
	}
	for d := range int64(8) {
		if d <= hi-lo || hi-lo < 0 { // hi-lo may overflow, then the range is huge
			try(lo + d)
			try(hi - d)
		}
	}
	for _, e := range st.enums { // step over excluded values
		for _, v := range e.Values {
			if i, ok := v.(int64); ok && i < math.MaxInt64 {
				try(i + 1)
			}
		}
	}
	return out
}

// eachNear calls f for multiples around a number.
func (m IntMultiple) eachNear(base int64, f func(int64)) {
	for d := int64(-2); d <= 2; d++ {
		if q := base/m.N + d; q == 0 || abs(q) <= math.MaxInt64/m.N {
			f(q * m.N)
		}
	}
}

// abs is the absolute value. The least int64, which has none, stays as it is.
func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}

// finiteBounds returns the bounds, with a number far from the other bound in place of an infinite one.
func (r FloatRange) finiteBounds() (lo, hi float64) {
	lo, hi = r.Lo, r.Hi
	if math.IsInf(lo, -1) {
		lo = min(-1e6, hi-10)
	}
	if math.IsInf(hi, 1) {
		hi = max(1e6, lo+10)
	}
	return lo, hi
}

// solveFloat tries likely floats. There is a proof that there is none only if the range has one value, or if only whole numbers count and few
// or none are in the range.
func (s *Solver) solveFloat(st *state, want int) ([]any, bool) {
	r := st.floats
	exact := slices.Contains(st.integral, Integral{Exact: true})
	integral := exact || slices.Contains(st.integral, Integral{})
	if out := s.keepUnrefused(st, st.likelyFloats(integral), want); len(out) > 0 {
		return out, false
	}
	switch {
	case exact && (math.Ceil(r.Lo) > math.Floor(r.Hi) || slices.Contains(st.floatMult, FloatMultiple{F: 1, Neg: true})):
		return nil, true
	case r.Lo == r.Hi: // the only possible value was tried
		return nil, true
	case integral && r.Hi-r.Lo < fewInts:
		var candidates []any
		for v := math.Ceil(r.Lo); v <= r.Hi; v++ {
			candidates = r.appendFinite(candidates, v)
		}
		// Unless exact, the tolerance of upstream's test for integers leaves floats that are no integers.
		if out := s.keepUnrefused(st, candidates, want); len(out) > 0 || exact {
			return out, exact
		}
		s.recordReason("no integral number found")
		return nil, false
	}
	s.recordReason("no number found")
	return nil, false
}

// likelyFloats returns floats in the range that are worth a try: readable ones, the bounds and their neighbours, and multiples.
func (st *state) likelyFloats(integral bool) (out []any) {
	r := st.floats
	lo, hi := r.finiteBounds()
	if !integral {
		out = r.appendFinite(out, 0.5, 1.5, -0.5, r.Lo+0.5, r.Hi-0.5, (lo+hi)/2, r.Lo, r.Hi)
		for _, v := range []float64{math.Nextafter(r.Lo, math.Inf(1)), math.Nextafter(r.Hi, math.Inf(-1))} {
			if math.Abs(v) >= 0x1p-1022 { // nobody writes 5e-324
				out = r.appendFinite(out, v)
			}
		}
	}
	for _, m := range st.floatMult {
		if m.F > 0 {
			for _, d := range []float64{1, 2, 0, -1, -2} {
				out = r.appendFinite(out, d*m.F, (math.Trunc(lo/m.F)+d)*m.F, (math.Trunc(hi/m.F)+d)*m.F)
			}
		}
	}
	return r.appendFinite(out, 1, 0, 2, -1, math.Ceil(lo), math.Ceil(lo)+1, math.Floor(hi), math.Floor(hi)-1, r.Lo, r.Hi)
}

// appendFinite appends the numbers that are in the range, without infinite ones.
func (r FloatRange) appendFinite(out []any, vs ...float64) []any {
	for _, v := range vs {
		if !math.IsInf(v, 0) && !math.IsNaN(v) && r.containsNumber(v) {
			out = append(out, v)
		}
	}
	return out
}
