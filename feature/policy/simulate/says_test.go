package simulate_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
)

// TestSays asks policies, as they are stored, what they make of settings.
func TestSays(t *testing.T) {
	t.Parallel()
	m := model(t, componentYAML+"  optIn: {namespaceLabel: true, rbac: true}\n", `
- {gate: A, parts: [{field: spec.tasksTimeout}]}
- {gate: B, requires: [A], parts: [{field: "spec.tasks[*].timeout"}]}
- {gate: C, whenDisabled: Drop, parts: [{field: "spec.env[*].secretRef"}]}
- {gate: D, requiredProcesses: [controller], parts: [{field: spec.onError, values: [Continue]}]}
`)
	for _, tt := range []struct {
		name     string
		mode     v1alpha1.Mode
		settings map[string]string
		want     map[string]bool // of all policies together
	}{
		{"nothing is set", v1alpha1.Live, map[string]string{}, map[string]bool{"A": false, "B": false, "C": false, "D": false}},
		{"all by the level", v1alpha1.Live, map[string]string{"enable-api-fields": "alpha"}, map[string]bool{"A": true, "B": true, "C": true, "D": false}},
		{"what another requires is off", v1alpha1.Live, map[string]string{"b": "true", "feature-gates": "C=true"}, map[string]bool{"A": false, "B": false, "C": true, "D": false}},
		{"no settings", v1alpha1.Live, nil, map[string]bool{}},
		{"baked in", v1alpha1.Baked, nil, map[string]bool{"A": false, "B": false, "C": false, "D": false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set, _ := compile(t, m, policy.Options{Mode: tt.mode})
			got := map[string]bool{}
			for i := range set.Validating {
				p := &set.Validating[i]
				if p.Annotations[policy.GatesAnnotation] == "" || p.Annotations[policy.TellsAnnotation] != "" {
					continue
				}
				says, err := simulate.Says(t.Context(), p, strings.Split(p.Annotations[policy.GatesAnnotation], ","), tt.settings)
				if err != nil {
					t.Fatal(err)
				}
				maps.Copy(got, says)
			}
			for i := range set.Mutating {
				says, err := simulate.Says(t.Context(), &set.Mutating[i], []string{"C"}, tt.settings)
				if err != nil {
					t.Fatal(err)
				}
				maps.Copy(got, says)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSaysOfWhatIsNoPolicyOrNotOurs(t *testing.T) {
	t.Parallel()
	if _, err := simulate.Says(t.Context(), &corev1.ConfigMap{}, []string{"A"}, nil); err == nil {
		t.Error("a ConfigMap says something")
	}
	set, _ := compile(t, model(t, componentYAML, parts), policy.Options{})
	for i := range set.Validating {
		p := set.Validating[i].DeepCopy()
		for j := range p.Spec.Variables {
			p.Spec.Variables[j].Expression = "nonsense("
		}
		says, err := simulate.Says(t.Context(), p, []string{"TasksTimeout"}, map[string]string{})
		if p.Annotations[policy.GatesAnnotation] != "" && p.Annotations[policy.TellsAnnotation] == "" && err == nil && says["TasksTimeout"] {
			t.Errorf("%s, which cannot be compiled, says %v", p.Name, says)
		}
	}
}
