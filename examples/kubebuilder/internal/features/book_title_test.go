package features

import (
	"testing"

	"sluice.dev/feature"
	"sluice.dev/feature/featuretest"
	"sluice.dev/feature/gate"
)

func TestBookTitle(t *testing.T) {
	for name, on := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			gates := featuretest.New(t, Declaration(), gate.Options{}, featuretest.Values{BookTitle: on})
			decision := gates.Evaluator().Evaluate(&feature.Request{
				Group: "book.example.dev", Version: "v1", Resource: "guestbooks",
				Object: map[string]any{"spec": map[string]any{"title": "x"}},
			})
			if decision.Allowed() != on {
				t.Errorf("an object with spec.title: allowed %t, want %t", !on, on)
			}
		})
	}
}
