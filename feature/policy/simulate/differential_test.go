package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
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
				for range 200 {
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

// TestOnlyPoliciesWithNothingToSayAreLeftOut judges pairs by all policies, and by those that are made for the object.
func TestOnlyPoliciesWithNothingToSayAreLeftOut(t *testing.T) {
	t.Parallel()
	// The places in a map have no order.
	likewise := cmp.Comparer(func(a, b simulate.Refusal) bool {
		return a.Policy == b.Policy && a.Failed == b.Failed && len(a.Message) == len(b.Message)
	})
	pairs, fewer, spoke := 0, 0, 0
	for seed := range draws.Seeds(15) {
		r := rand.New(rand.NewPCG(seed, 23))
		w, err := featuregen.New(r)
		if err != nil {
			t.Fatal(err)
		}
		for i := range w.Features {
			if f := &w.Features[i]; f.Spec.WhenDisabled == v1alpha1.Drop {
				f.Spec.WhenDisabled, f.Spec.Parts[0].ResetTo = v1alpha1.Reject, nil // where anything is dropped, no policy is left out
			}
		}
		w.Without(func(string, int) bool { return false })
		settings := w.Settings(r)
		o := policy.Options{Mode: []v1alpha1.Mode{v1alpha1.Live, v1alpha1.Baked}[seed%2], Items: 500, Unguarded: true}
		o.Settings, _ = w.Model.ParseSettings(settings)
		all, err := policy.Compile(t.Context(), w.Model, o)
		if err != nil {
			t.Fatal(err)
		}
		s := simulate.NewLazy(all)
		for range 10 {
			request := &simulate.Request{Group: featuregen.Group, Version: "v1", Resource: featuregen.Resource, Settings: settings, Object: w.Object(r, true)}
			if r.IntN(3) == 0 {
				request.Old = w.Object(r, true)
			}
			o.Object, o.SettingsData = request.Object, settings
			some, err := policy.Compile(t.Context(), w.Model, o)
			if err != nil {
				t.Fatal(err)
			}
			want, err := s.Run(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			got, err := simulate.NewLazy(some).Run(t.Context(), request)
			if diff := cmp.Diff(want, got, likewise); err != nil || diff != "" {
				t.Errorf("seed %d: %v %s\nnew %s\nold %s\nsettings %v", seed, err, diff, featuregen.Show(request.Object), featuregen.Show(request.Old), settings)
			}
			if pairs++; len(some.Validating) < len(all.Validating) {
				fewer++
			}
			if want.Refused != nil || want.Warned != nil {
				spoke++
			}
		}
	}
	if fewer < pairs/10 || spoke < pairs/10 {
		t.Errorf("of %d pairs, %d had fewer policies, and policies spoke of %d", pairs, fewer, spoke)
	}
}
