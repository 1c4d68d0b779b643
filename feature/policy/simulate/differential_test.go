package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync/atomic"
	"testing"

	"sluice.dev/tools/draws"
	"sluice.dev/tools/featuregen"
)

// TestMain lets garbage lie: what the tests compile is thrown away at once, and there is room for it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// TestPoliciesAgreeWithTheEvaluator draws worlds and pairs of objects.
func TestPoliciesAgreeWithTheEvaluator(t *testing.T) {
	t.Parallel()
	var pairs, spoke atomic.Int64
	t.Run("seed", func(t *testing.T) {
		for seed := range draws.Seeds(20) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(seed, 7))
				trial, err := featuregen.NewTrial(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				for range 150 {
					old, object := trial.Pair(r)
					said, err := trial.Try(t.Context(), old, object)
					if err != nil {
						t.Fatal(err)
					}
					if pairs.Add(1); said {
						spoke.Add(1)
					}
				}
			})
		}
	})
	if !t.Failed() && spoke.Load() < pairs.Load()/8 {
		t.Errorf("of %d pairs only %d use what is closed", pairs.Load(), spoke.Load())
	}
}
