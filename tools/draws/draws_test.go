package draws_test

import (
	"slices"
	"testing"

	"sluice.dev/tools/draws"
)

func TestShares(t *testing.T) {
	for _, c := range []struct {
		rounds, seed string
		n, count     int
		taken        []int // of the indices 0 to 9
	}{
		{"", "", 400, 40, []int{0}},
		{"", "", 3, 1, []int{0}},
		{"", "7", 400, 40, []int{3}},
		{"1", "", 400, 400, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"20", "", 400, 8000, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"0.5", "", 400, 200, []int{0, 2, 4, 6, 8}},
	} {
		t.Setenv("SLUICE_ROUNDS", c.rounds)
		t.Setenv("SLUICE_SEED", c.seed)
		if got := draws.Count(c.n); got != c.count {
			t.Errorf("SLUICE_ROUNDS=%q: %d of %d are drawn, want %d", c.rounds, got, c.n, c.count)
		}
		seeds := slices.Collect(draws.Seeds(c.n))
		if len(seeds) != c.count || seeds[0] != draws.First() {
			t.Errorf("SLUICE_ROUNDS=%q SLUICE_SEED=%q: %d seeds from %d on", c.rounds, c.seed, len(seeds), seeds[0])
		}
		var taken []int
		for i := range 10 {
			if draws.Takes(i) {
				taken = append(taken, i)
			}
		}
		if !slices.Equal(taken, c.taken) {
			t.Errorf("SLUICE_ROUNDS=%q SLUICE_SEED=%q: %v are taken, want %v", c.rounds, c.seed, taken, c.taken)
		}
	}
}

func TestOtherSettingsArePanics(t *testing.T) {
	for _, c := range [][2]string{{"SLUICE_ROUNDS", "0"}, {"SLUICE_ROUNDS", "-1"}, {"SLUICE_ROUNDS", "NaN"}, {"SLUICE_ROUNDS", "all"}, {"SLUICE_SEED", "-1"}} {
		t.Run(c[0]+"="+c[1], func(t *testing.T) {
			t.Setenv(c[0], c[1])
			defer func() {
				if recover() == nil {
					t.Error("it is taken for a setting")
				}
			}()
			for range draws.Seeds(10) {
				t.Log("drawn")
			}
		})
	}
}
