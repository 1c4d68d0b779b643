package simulate_test

import (
	"math/rand/v2"
	"testing"

	"sluice.dev/internal/featuregen"
)

func TestPoliciesAgreeWithTheEvaluator(t *testing.T) {
	pairs, spoke, webhook := 0, 0, map[string]int{}
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 7))
		trial, err := featuregen.NewTrial(t.Context(), r)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, e := range trial.Webhook {
			webhook[e.Reason]++
		}
		for range 150 {
			old, object := trial.Pair(r)
			said, err := trial.Try(t.Context(), old, object)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			pairs++
			if said {
				spoke++
			}
		}
	}
	if spoke < pairs/8 {
		t.Errorf("of %d pairs only %d use what is closed", pairs, spoke)
	}
	t.Logf("%d pairs, %d of them use what is closed; to the webhook: %v", pairs, spoke, webhook)
}
