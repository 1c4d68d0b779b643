package check

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/report"
)

// matrixOf makes a matrix of n releases, 0 to n-1, of which the given upgrades are safe, such as 01 from 0 to 1.
func matrixOf(n int, safe string) *ReleaseMatrix {
	m := &ReleaseMatrix{}
	for i := range n {
		m.Releases = append(m.Releases, Release{Name: string(rune('0' + i))})
	}
	for i := range n {
		for j := i + 1; j < n; j++ {
			u := Upgrade{From: m.Releases[i].Name, To: m.Releases[j].Name, Verdict: report.Unsafe}
			if strings.Contains(" "+safe+" ", " "+u.From+u.To+" ") {
				u.Verdict = report.Safe
			}
			m.Upgrades = append(m.Upgrades, u)
		}
	}
	m.findWays()
	return m
}

func TestWaysBetweenReleases(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		n          int
		safe       string
		ways, skip []string
	}{
		"all are safe":                   {3, "01 02 12", []string{"0: 2", "1: 2"}, nil},
		"one must not be skipped":        {3, "01 12", []string{"0: 1 2", "1: 2"}, []string{"1"}},
		"one may only be skipped":        {3, "02", []string{"0: 2", "1: stops at 1"}, nil},
		"the shortest of two":            {4, "01 12 23 13 02", []string{"0: 2 3", "1: 3", "2: 3"}, nil},
		"nothing leads to the newest":    {3, "01", []string{"0: stops at 1", "1: stops at 1"}, nil},
		"a way that goes past a bad one": {5, "02 24 34", []string{"0: 2 4", "1: stops at 1", "2: 4", "3: 4"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := matrixOf(tt.n, tt.safe)
			var ways, skip []string
			for _, w := range m.Ways {
				over := strings.Join(w.Over, " ")
				if over == "" {
					over = "stops at " + w.Stops
				}
				ways = append(ways, w.From+": "+over)
			}
			for _, u := range m.Unskippable {
				skip = append(skip, u.Release)
			}
			if diff := cmp.Diff(tt.ways, ways); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.skip, skip); diff != "" {
				t.Error(diff)
			}
		})
	}
}
