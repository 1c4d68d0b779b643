package compat

import (
	"runtime"
	"slices"
	"testing"

	"sluice.dev/report"
	"sluice.dev/tools/schemagen"
)

// Whatever a large change is made of, the budget bounds the work: what is allocated is bounded by it and by the size of the
// change, and what it does not cover is undecided.
func TestBudgetBoundsWork(t *testing.T) {
	const (
		size   = 20_000
		budget = 90_000
		most   = 96 << 20 // bytes allocated in all: half a kilobyte for a unit, and two for a byte of the change
	)
	for _, pair := range schemagen.Hostile(size) {
		t.Run(pair.Name, func(t *testing.T) {
			old, new := decode(t, pair.Old), decode(t, pair.New)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			small := newComparison(old, new, Options{Budget: budget})
			small.applyRules(t.Context())
			small.tellSpent()
			runtime.ReadMemStats(&after)
			if small.work.Done() > 2*small.searchBudget() {
				t.Errorf("%d units of work, want about %d", small.work.Done(), small.searchBudget())
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > most {
				t.Errorf("%d MiB allocated, want at most %d", got>>20, most>>20)
			}
			if got := small.verdictOf(small.findings); got.Proven() && (small.work.Spent() || !check(t, old, new).Verdict.Proven()) {
				t.Error("it is called safe because the budget is spent")
			}
		})
	}
}

// Rules are charged for before they are compiled: the rules of one place are compiled together, and that alone may be more than the
// whole budget covers.
func TestRulesThatTheBudgetDoesNotCoverAreNotCompiled(t *testing.T) {
	const most = 512 << 20 // bytes allocated in all
	for _, pair := range schemagen.Hostile(150_000) {
		if pair.Name != "long rules" {
			continue
		}
		old, new := decode(t, pair.Old), decode(t, pair.New)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := Check(t.Context(), old, new, Options{Budget: DefaultBudget / 4})
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > most {
			t.Errorf("%d MiB allocated, want at most %d", n>>20, most>>20)
		}
		if got.Verdict != report.IsUndecided {
			t.Errorf("it is %s", got.Verdict)
		}
	}
}

// To find the versions that say the same, no version is compared with each other one: thousands of versions are millions of pairs, which
// nothing charges for.
func TestVersionsAreNotComparedWithEachOther(t *testing.T) {
	const most = 16 << 10 // bytes allocated for a version of two fields
	all := schemagen.Hostile(300_000)
	pair := all[slices.IndexFunc(all, func(p schemagen.HostilePair) bool { return p.Name == "versions" })]
	c := newComparison(decode(t, pair.Old), decode(t, pair.New), Options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	distinct := c.distinctVersions(c.writtenVersions(), c.newParts[0])
	runtime.ReadMemStats(&after)
	if len(distinct) != len(c.oldParts) {
		t.Errorf("%d of %d versions are distinct", len(distinct), len(c.oldParts))
	}
	if got := int(after.TotalAlloc-before.TotalAlloc) / len(c.oldParts); got > most {
		t.Errorf("%d bytes allocated for each of %d versions, want at most %d", got, len(c.oldParts), most)
	}
}
