package features

import (
	"testing"

	"sluice.dev/feature"
	"sluice.dev/feature/featuretest"
	"sluice.dev/feature/gate"
)

func TestRandomOrder(t *testing.T) {
	for name, on := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			gates := featuretest.New(t, Declaration(), gate.Options{}, featuretest.Values{RandomOrder: on})
			decision := gates.Evaluator().Evaluate(&feature.Request{
				Group: "book.example.dev", Version: "v1", Resource: "guestbooks",
				Object: map[string]any{"spec": map[string]any{"order": "Random"}},
			})
			if decision.Allowed() != on {
				t.Errorf("an object with the order Random: allowed %t, want %t", !on, on)
			}
		})
	}
}
