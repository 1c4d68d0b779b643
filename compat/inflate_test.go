package compat

import (
	"runtime"
	"slices"
	"testing"

	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/schemagen"
)

// Whatever is many or huge in a random schema, on one side or on both: the budget bounds what is allocated. The budget is that of a
// guard in small; the bound has room for the validation of the CRD, which has a budget of its own.
func TestBudgetBoundsWorkOnWhateverIsLarge(t *testing.T) {
	const (
		budget = 90_000
		most   = 96 << 20 // bytes allocated, and so many more for each byte of the CRDs
		each   = 400
	)
	tried := 0
	for _, seed := range slices.AppendSeq([]uint64{1112, 1153}, draws.Seeds(120)) {
		old, new := drawLarge(seed)
		if upstream.ValidationWork(old)+upstream.ValidationWork(new) > 3_000_000 {
			continue // larger than a CRD that an API server has room for
		}
		tried++
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c := newComparison(old, new, Options{Budget: budget})
		c.applyRules(t.Context())
		runtime.ReadMemStats(&after)
		if done := c.work.Done(); done > 2*c.searchBudget() {
			t.Errorf("seed %d: %d units of work, want about %d", seed, done, c.searchBudget())
		}
		size := uint64(len(compactJSON(old)) + len(compactJSON(new)))
		if got := after.TotalAlloc - before.TotalAlloc; got > most+each*size {
			t.Errorf("seed %d: %d MiB allocated for %d KiB, want at most %d", seed, got>>20, size>>10, (most+each*size)>>20)
		}
	}
	if n := draws.Count(120); tried < n/2 {
		t.Errorf("%d of %d were tried", tried, n)
	}
}

// drawLarge returns an upgrade in which something is many or huge.
func drawLarge(seed uint64) (old, new *crd) {
	g := schemagen.New(seed)
	g.Rules = true
	schema, change := g.Schema(), g.Change
	if g.IntN(2) == 0 {
		schema, change = g.Union(), g.ChangeUnion
	}
	n := []int{30, 300, 2000}[g.IntN(3)]
	if g.IntN(3) > 0 {
		schema = g.Inflate(schema, n)
	}
	next := change(schema)
	if g.IntN(2) == 0 {
		next = g.Inflate(next, n)
	}
	return unionCRD(g, schema), unionCRD(g, next)
}
