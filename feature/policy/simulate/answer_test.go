package simulate_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/featuregen"
)

// answers are what some asked of a gate say, by who was asked.
type answers map[string]map[string]bool

func (a answers) note(who, gate string, open bool) {
	if a[gate] == nil {
		a[gate] = map[string]bool{}
	}
	a[gate][who] = open
}

// TestOneAnswer draws definitions and settings, and asks of each gate whether it is on: the evaluator, which the webhook, the commands and the
// status of Features ask; the policies; the library in a process, and its gate of component-base. Where the definitions are those of Kubernetes, it
// asks k8s.io/component-base/featuregate, too.
func TestOneAnswer(t *testing.T) {
	t.Parallel()
	var asked, on, processes, upstream atomic.Int64
	t.Run("seed", func(t *testing.T) {
		for seed := range draws.Seeds(60) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(seed, 30))
				w, err := featuregen.New(r)
				if err != nil {
					t.Fatal(err)
				}
				set, err := policy.Compile(t.Context(), w.Model, policy.Options{Items: 100, Unguarded: true})
				if err != nil {
					t.Fatal(err)
				}
				for range 8 {
					settings := w.Settings(r)
					got := answers{}
					parsed, findings := w.Model.ParseSettings(settings)
					states := w.Model.Resolve(parsed, feature.Runtime{})
					for _, s := range states.All() {
						got.note("evaluator", s.Feature.Spec.Gate, states.OpenFor(s.Feature.Spec.Gate, nil))
						got.note("list and status", s.Feature.Spec.Gate, s.Open)
					}
					askPolicies(t, set, settings, got)
					if askProcess(t, w, settings, got) {
						processes.Add(1)
					}
					if findings.Err() == nil && askComponentBase(t, w, settings, got) {
						upstream.Add(1)
					}
					for _, gate := range slices.Sorted(maps.Keys(got)) {
						asked.Add(1)
						said := slices.Compact(slices.Collect(maps.Values(got[gate])))
						if len(said) > 1 {
							t.Errorf("%s: %v, with %v and convention %q", gate, got[gate], settings, w.Component.Spec.Convention)
						}
						if said[0] {
							on.Add(1)
						}
					}
				}
			})
		}
	})
	if n := asked.Load(); !t.Failed() && (on.Load() < n/10 || on.Load() > n*9/10 || processes.Load() == 0 || upstream.Load() == 0) {
		t.Errorf("of %d gates %d are on; %d times a process answers, %d times component-base", n, on.Load(), processes.Load(), upstream.Load())
	}
}

// askPolicies asks the policies of a set.
func askPolicies(t *testing.T, set *policy.Set, settings map[string]string, got answers) {
	t.Helper()
	ask := func(o *metav1.ObjectMeta, says func(gates []string) (map[string]bool, error)) {
		if o.Annotations[policy.GatesAnnotation] == "" || o.Annotations[policy.TellsAnnotation] != "" {
			return
		}
		said, err := says(strings.Split(o.Annotations[policy.GatesAnnotation], ","))
		if err != nil {
			t.Fatal(err)
		}
		for gate, open := range said {
			got.note(o.Name, gate, open)
		}
	}
	for i := range set.Validating {
		p := &set.Validating[i]
		ask(&p.ObjectMeta, func(gates []string) (map[string]bool, error) { return simulate.Says(t.Context(), p, gates, settings) })
	}
	for i := range set.Mutating {
		p := &set.Mutating[i]
		ask(&p.ObjectMeta, func(gates []string) (map[string]bool, error) { return simulate.Says(t.Context(), p, gates, settings) })
	}
}

// askProcess asks the library, if it takes the settings.
func askProcess(t *testing.T, w *featuregen.World, settings map[string]string, got answers) bool {
	t.Helper()
	g, err := w.Process(settings)
	if err != nil {
		t.Fatal(err)
	}
	if g == nil {
		return false
	}
	for _, f := range w.Model.Features() {
		name := featuregate.Feature(f.Spec.Gate)
		got.note("process", f.Spec.Gate, g.Enabled(name))
		if f.Stage != v1alpha1.Removed {
			got.note("gate of the process", f.Spec.Gate, g.FeatureGate().Enabled(name))
		}
	}
	return true
}

// askComponentBase asks the gates of k8s.io/component-base for the features that it has a form for.
func askComponentBase(t *testing.T, w *featuregen.World, settings map[string]string, got answers) bool {
	t.Helper()
	if w.Component.Spec.Convention.HasLevel() || w.Component.Spec.MaxLevel != "" {
		return false
	}
	upstream := featuregate.NewVersionedFeatureGate(version.MustParseGeneric(w.Component.Spec.Release))
	kinds := map[v1alpha1.Stage]featuregate.FeatureSpec{v1alpha1.Alpha: {PreRelease: featuregate.Alpha}, v1alpha1.Beta: {PreRelease: featuregate.Beta}}
	values := map[string]bool{}
	for entry := range strings.SplitSeq(settings["feature-gates"], ",") {
		if name, word, ok := strings.Cut(entry, "="); ok {
			values[strings.TrimSpace(name)] = slices.Contains([]string{"true", "True", "t", "1"}, strings.TrimSpace(word))
		}
	}
	var mine []string
	for _, f := range w.Model.Features() {
		spec, ok := kinds[f.Stage]
		_, keyed := settings[f.Spec.Key]
		if !ok || keyed || len(f.Spec.Requires)+len(f.Spec.ImpliedBy) > 0 {
			continue
		}
		spec.Default = f.Default
		if err := upstream.Add(map[featuregate.Feature]featuregate.FeatureSpec{featuregate.Feature(f.Spec.Gate): spec}); err != nil {
			t.Fatal(err)
		}
		mine = append(mine, f.Spec.Gate)
	}
	maps.DeleteFunc(values, func(name string, _ bool) bool { return !slices.Contains(append(mine, "AllAlpha", "AllBeta"), name) })
	if err := upstream.SetFromMap(values); err != nil {
		t.Fatal(err, values)
	}
	for _, name := range mine {
		got.note("component-base", name, upstream.Enabled(featuregate.Feature(name)))
	}
	return len(mine) > 0
}
