package gate_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/component-base/featuregate"

	"sluice.dev/feature"
	"sluice.dev/feature/gate"
)

// TestWhoWatchesHearsWhatIsAsked goes through all ways of asking.
func TestWhoWatchesHearsWhatIsAsked(t *testing.T) {
	const all = "Done FastPath Field Gone Later Needy Shared Slow Tuned Turbo"
	request := func(spec map[string]any) *feature.Request {
		return &feature.Request{Group: "demo.dev", Version: "v1", Resource: "widgets", Object: map[string]any{"spec": spec}}
	}
	// What was given away before somebody watches is watched too.
	type given struct {
		states    *feature.States
		evaluator *feature.Evaluator
		gate      featuregate.FeatureGate
		copied    featuregate.FeatureGate
	}
	for _, tt := range []struct {
		name string
		ask  func(g *gate.Gates, old given)
		want string
	}{
		{"nothing", func(g *gate.Gates, _ given) { g.Model().Feature("FastPath"); g.Problems(); g.Reporter()() }, ""},
		{"Enabled", func(g *gate.Gates, _ given) { g.Enabled("Slow") }, "Slow"},
		{"Enabled of what requires another, and is off", func(g *gate.Gates, _ given) { g.Set(gate.Flags, nil, ""); g.Enabled("Needy") }, "Needy"},
		{"Enabled of what requires another, and is on", func(g *gate.Gates, _ given) { g.Enabled("Needy") }, "FastPath Needy"},
		{"an unknown one", func(g *gate.Gates, _ given) { g.Enabled("Unknown") }, "Unknown"},
		{"State", func(g *gate.Gates, _ given) { g.State("Slow") }, "Slow"},
		{"a state of the states", func(g *gate.Gates, _ given) { g.States().State("Slow") }, "Slow"},
		{"all states", func(g *gate.Gates, _ given) { g.States().All() }, all},
		{"OpenFor", func(g *gate.Gates, _ given) { g.States().OpenFor("Field", nil) }, "Field"},
		{"earlier states", func(_ *gate.Gates, old given) { old.states.State("Slow") }, "Slow"},
		{"Report", func(g *gate.Gates, _ given) { g.Report() }, all},
		{"Evaluator, of an object that uses nothing", func(g *gate.Gates, _ given) { g.Evaluator().Evaluate(request(map[string]any{"name": "x"})) }, ""},
		{"Evaluator, of an object that uses a field", func(g *gate.Gates, _ given) { g.Evaluator().Evaluate(request(map[string]any{"mode": "x"})) }, "Field"},
		{"Evaluator, of an object that uses a value", func(g *gate.Gates, _ given) {
			g.Evaluator().Evaluate(request(map[string]any{"kind": "Turbo", "mode": "x"}))
		}, "Field Turbo"},
		{"an evaluator of the states", func(g *gate.Gates, _ given) { g.States().Compile().Evaluate(request(map[string]any{"mode": "x"})) }, "Field"},
		{"an earlier evaluator", func(_ *gate.Gates, old given) { old.evaluator.Evaluate(request(map[string]any{"mode": "x"})) }, "Field"},
		{"FeatureGate", func(g *gate.Gates, _ given) { g.FeatureGate().Enabled("Slow") }, "Slow"},
		{"an earlier one", func(_ *gate.Gates, old given) { old.gate.Enabled("Slow") }, "Slow"},
		{"a copy of it", func(g *gate.Gates, old given) { old.copied.Enabled("Slow") }, "Slow"},
		{"a copy at its defaults", func(g *gate.Gates, _ given) { g.FeatureGate().DeepCopyAndReset().Enabled("Slow") }, "Slow"},
		{"what concerns all features of component-base", func(g *gate.Gates, _ given) { g.FeatureGate().Enabled("AllAlpha") }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGates(t, gate.Options{})
			g.Set(gate.Flags, map[string]string{"feature-gates": "FastPath=true,Needy=true"}, "")
			old := given{g.States(), g.Evaluator(), g.FeatureGate(), g.FeatureGate().DeepCopy()}
			var heard []string
			stop := g.Observe(func(name featuregate.Feature) {
				if !slices.Contains(heard, string(name)) {
					heard = append(heard, string(name))
				}
			})
			tt.ask(g, old)
			slices.Sort(heard)
			if got := strings.Join(heard, " "); got != tt.want {
				t.Errorf("heard of %s, want %s", got, tt.want)
			}
			stop()
			heard = nil
			tt.ask(g, old)
			if heard != nil {
				t.Errorf("after the end heard of %v", heard)
			}
		})
	}
}

func TestTheLastWatcherHears(t *testing.T) {
	g := newGates(t, gate.Options{})
	var heard string
	watch := func(who string) (stop func()) { return g.Observe(func(featuregate.Feature) { heard += who }) }
	stopA := watch("A")
	stopB := watch("B")
	stopC := watch("C")
	g.Enabled("Slow")
	// They may stop in any order.
	stopB()
	g.Enabled("Slow")
	stopC()
	g.Enabled("Slow")
	stopA()
	stopA()
	g.Enabled("Slow")
	if heard != "CCA" {
		t.Errorf("heard %s, want CCA", heard)
	}
}
