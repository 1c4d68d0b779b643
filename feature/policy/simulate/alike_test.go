package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
	"sluice.dev/tools/draws"
)

// TestFieldsThatAreAlikeAreJudgedAsTheEvaluatorDoes draws features that differ in names only, which share an expression, with all that one of
// them may depend on: ratchets, ways to opt in, settings and stored uses.
func TestFieldsThatAreAlikeAreJudgedAsTheEvaluatorDoes(t *testing.T) {
	t.Parallel()
	fields := []string{"tasksTimeout", "onError", "words", "loose"}
	values := map[string]any{"tasksTimeout": "x", "onError": "Stop", "words": []any{"a"}, "loose": []any{map[string]any{"hint": "h"}}}
	allowed, refused := 0, 0
	for seed := range draws.Seeds(200) {
		r := rand.New(rand.NewPCG(seed, 12))
		optIn := []string{"", "  optIn: {rbac: true}\n", "  optIn: {namespaceLabel: true}\n", "  optIn: {rbac: true, namespaceLabel: true}\n"}[r.IntN(4)]
		ratchet := []string{"", ", ratchet: Unchanged", ", ratchet: InObject"}[r.IntN(3)]
		if ratchet == ", ratchet: Unchanged" {
			fields = fields[:2] // of scalars
		} else {
			fields = fields[:4]
		}
		var text, spec string
		gates := r.IntN(2) == 0
		for i, f := range fields {
			if gates {
				spec += fmt.Sprintf("- {gate: Gate%d%s, parts: [{field: spec.%s}]}\n", i, ratchet, f)
				continue
			}
			text += fmt.Sprintf("{field: spec.%s}, ", f)
		}
		if !gates {
			spec = fmt.Sprintf("[{gate: Gate0%s, parts: [%s]}]", ratchet, text)
		}
		m := model(t, componentYAML+optIn, spec)
		_, s := compile(t, m, policy.Options{})
		for range 20 {
			settings := map[string]string{}
			for i := range fields {
				if r.IntN(4) == 0 {
					settings[fmt.Sprintf("gate%d", i)] = "true"
				}
			}
			draw := func() map[string]any {
				spec := map[string]any{"other": fmt.Sprint(r.Int())}
				for _, f := range fields {
					if r.IntN(3) == 0 {
						spec[f] = values[f]
					}
				}
				return map[string]any{"metadata": map[string]any{"name": "x", "namespace": "y"}, "spec": spec}
			}
			labelled, labels := r.IntN(2) == 0, map[string]string{}
			if labelled {
				labels[feature.OptInLabels("demo", "Gate0")[0]] = feature.OptInValue
			}
			mayUse := func(name string) bool { return !labelled && name == "demo.gate0" }
			optedIn := func(gate string) bool {
				return gate == "Gate0" && (labelled && strings.Contains(optIn, "namespaceLabel") || !labelled && strings.Contains(optIn, "rbac"))
			}
			q := &simulate.Request{Settings: settings, Object: draw(), MayUse: mayUse, NamespaceLabels: labels}
			if r.IntN(3) > 0 {
				q.Old = draw()
			}
			got := run(t, s, q)
			parsed, _ := m.ParseSettings(settings)
			d := m.Resolve(parsed, feature.Runtime{}).Compile().Evaluate(&feature.Request{
				Group: q.Group, Version: q.Version, Resource: q.Resource, Old: q.Old, Object: q.Object, OptedIn: optedIn,
			})
			if want := len(d.Rejected.List) == 0; got.Allowed() != want {
				t.Fatalf("seed %d: %v to %v with %v, %s: %v, the evaluator says %v", seed, q.Old, q.Object, settings, spec, got.Refused, d.Rejected.List)
			}
			if got.Allowed() {
				allowed++
			} else {
				refused++
			}
		}
	}
	if allowed < 50 || refused < 50 {
		t.Errorf("%d are allowed and %d refused", allowed, refused)
	}
}
