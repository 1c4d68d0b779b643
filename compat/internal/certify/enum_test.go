package certify

import (
	"math"
	"slices"
	"testing"
)

// TestEnumsAreLookedUpAsTheyAreCompared holds the lookup against the comparison of each value, which is the API server's.
func TestEnumsAreLookedUpAsTheyAreCompared(t *testing.T) {
	values := []any{
		nil, "", "A", "\uFFFD", "ab", true, false, int64(0), int64(1), int64(65), int64(-1), int64(math.MaxInt64), int64(0x10FFFF + 1), 0.0, 1.0, 1.5, 65.0, -0.5,
		1e300, math.MaxInt64 + 0.0,
		[]any{},
		[]any{int64(1)},
		[]any{1.0},
		map[string]any{},
		map[string]any{"a": int64(1)},
	}
	for _, e := range values {
		for _, other := range values {
			set := oneOf([]any{e, other})
			for _, v := range values {
				want := slices.ContainsFunc(set.values, func(e any) bool { return same(v, e) })
				if got := set.set.has(v); got != want {
					t.Errorf("%#v in %#v: %t, want %t", v, set.values, got, want)
				}
			}
		}
	}
}
