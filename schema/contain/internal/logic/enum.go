package logic

// Which values does an enum leave? Those that the API server takes for one of its values count, too. For example, the enum value 1 lets 1.5 pass
// where a number is allowed, because Go cuts it to 1.

import (
	"math"
	"slices"
	"unicode/utf8"
)

// solveEnum tries every value that can equal an enum value in the sense of [Same], or one of each sort.
func (s *Solver) solveEnum(st *state, k Kind, values []any, want int) ([]any, bool) {
	var candidates []any
	complete := true
	for _, e := range values {
		equal, all := st.valuesSameAs(e, k)
		candidates, complete = append(candidates, equal...), complete && all
	}
	candidates = slices.DeleteFunc(candidates, func(v any) bool { return KindOf(v) != k })
	out := s.keepUnrefused(st, candidates, want)
	if !complete && len(out) == 0 {
		s.recordReason("other numbers that upstream takes for one of an enum")
	}
	return out, complete
}

// valuesSameAs returns values that equal an enum value in the sense of [Same], and whether they stand for all of kind k.
func (st *state) valuesSameAs(e any, k Kind) (equal []any, all bool) {
	switch e := e.(type) {
	case string:
		r := []rune(e)
		if len(r) != 1 {
			return []any{e}, true
		}
		// Go converts 65 to "A", and so upstream accepts it; and it converts every number that is no code point to U+FFFD.
		return []any{e, int64(r[0])}, r[0] != utf8.RuneError || k != Int
	case int64:
		equal, all = []any{e, float64(e)}, true
		if k == Float {
			found, complete := st.truncatedTo(e)
			equal, all = append(equal, found...), complete
		}
		return equal, all
	case float64:
		equal = []any{e}
		if i := int64(e); float64(i) == e {
			equal = append(equal, i)
		}
		return equal, math.Abs(e) < exactFloat || k != Int // beyond, several integers convert to the same float
	}
	return []any{e}, true
}

// exactFloat bounds the floats that represent every integer exactly.
const exactFloat = 1 << 53

// truncatedTo returns floats that Go truncates to the integer e, readable ones first, and whether they stand for all of them. Between e
// and the next integer, the truth of the facts of st about floats changes only at the bounds and values that they name, and at the
// limits of [IsIntegral], which are next to the two ends. So one float on each side of each such point, and one in the middle,
// represent the rest. That does not hold for multiples.
func (st *state) truncatedTo(e int64) ([]any, bool) {
	if slices.Contains(st.integral, Integral{Exact: true}) {
		return nil, true // float64(e) is the only one
	}
	if e <= -exactFloat || e >= exactFloat {
		return nil, false // what does not fit becomes some integer
	}
	lo, hi := float64(e), float64(e)
	if e >= 0 {
		hi++
	}
	if e <= 0 {
		lo--
	}
	points := []float64{lo, hi, float64(e), st.floats.Lo, st.floats.Hi}
	for _, n := range st.enums {
		for _, v := range n.Values {
			switch v := v.(type) {
			case float64:
				points = append(points, v)
			case int64:
				points = append(points, float64(v))
			}
		}
	}
	out := []any{(float64(e) + hi) / 2, (float64(e) + lo) / 2}
	for _, p := range points {
		for _, v := range []float64{p, math.Nextafter(p, math.Inf(-1)), math.Nextafter(p, math.Inf(1))} {
			if v > lo && v < hi || v == float64(e) {
				out = append(out, v)
			}
		}
	}
	return out, len(st.floatMult) == 0
}
