package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBatchesCountTheSameInAnyOrder holds a tally of batches in any order against one of batches in the order of the listing, whose
// examples are simply the first of each kind.
func TestBatchesCountTheSameInAnyOrder(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		keep := 1 + r.IntN(5)
		var batches []*batch
		want := Scan{}
		number := 0
		for list := range 1 + r.IntN(4) {
			for at := range r.IntN(4) {
				b := &batch{at: place{list: list, batch: at}, total: -1}
				for range 1 + r.IntN(6) {
					f := Fate{Name: fmt.Sprint(number), Defaulted: r.IntN(4) == 0}
					number++
					kept := false
					want.Checked++
					if f.Defaulted {
						want.Defaulted++
					}
					note := func(words *[]string, n *int64) {
						if r.IntN(3) > 0 {
							return
						}
						*words = []string{"bad"}
						*n++
						kept = kept || *n <= int64(keep)
					}
					note(&f.Refused, &want.Refused)
					note(&f.Strict, &want.Strict)
					note(&f.Dropped, &want.Dropped)
					for why, n := range map[*string]*int64{&f.Unappliable: &want.Unappliable, &f.OwnersGone: &want.OwnersGone, &f.StatusRefused: &want.StatusRefused, &f.Unjudged: &want.Unjudged} {
						var words []string
						if note(&words, n); words != nil {
							*why = words[0]
						}
					}
					if len(f.Strict) > 0 && len(f.Refused) == 0 && f.Unappliable == "" && f.StatusRefused == "" {
						want.Tolerated++
					}
					if f.Unappliable != "" || f.OwnersGone != "" {
						want.NoApply++
					}
					if kept {
						want.Fates = append(want.Fates, f)
					}
					b.fates = append(b.fates, f)
				}
				batches = append(batches, b)
			}
		}
		r.Shuffle(len(batches), func(i, j int) { batches[i], batches[j] = batches[j], batches[i] })
		got := &tally{keep: keep}
		for _, b := range batches {
			got.countBatch(b)
		}
		if diff := cmp.Diff(want, got.scanResult()); diff != "" {
			t.Fatalf("seed %d, %d of each kind kept: %s", seed, keep, diff)
		}
	}
}
