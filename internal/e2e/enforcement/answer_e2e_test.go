//go:build e2e

package enforcement

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"

	"sluice.dev/feature"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/policy"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/featuregen"
)

// What is drawn, a tenth of the worlds in a usual run: so many worlds with so many settings, one after the other, and so many objects.
const (
	answerWorlds   = 30
	answerSettings = 4
	answerObjects  = 12
)

// TestE2EOneAnswer is the sample on a real API server of what TestOneAnswer of feature/policy/simulate draws: whether a gate is on, the evaluator,
// which commands, documents and statuses ask, a process, and the API server say alike, while the settings in the ConfigMap change.
func TestE2EOneAnswer(t *testing.T) {
	t.Parallel()
	s := connect(t)
	s.namespace("gen-system", nil)
	told := map[string]int{}
	for seed := range draws.Seeds(answerWorlds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 31))
			w, err := featuregen.New(r)
			if err != nil {
				t.Fatal(err)
			}
			w.Component.Spec.OptIn = nil // an administrator may use everything
			w.Without(func(string, int) bool { return false })
			set, _, err := w.CompileWithoutWebhook(t.Context(), nil, policy.Options{Items: 100, Unguarded: true})
			if err != nil {
				t.Fatal(err)
			}
			s.with(t).sayAlike(r, w, set, told)
		})
	}
	n := draws.Count(answerWorlds)
	t.Logf("in %d worlds: %v", n, told)
	for what, least := range map[string]int{"refused": 5, "stored": 5, "asked of a process": 10, "dropped": 1} {
		if told[what] < n*least {
			t.Errorf("only %d are %s", told[what], what)
		}
	}
}

// sayAlike has the API server judge objects of a world under several settings, as the gates of the evaluator and of a process say.
func (s *server) sayAlike(r *rand.Rand, w *featuregen.World, set *policy.Set, told map[string]int) {
	s.Helper()
	crd := s.unstructured(w.CRD)
	s.apply(crd)
	if err := s.objects.WaitServed(s.Context(), crd); err != nil {
		s.Fatal(err)
	}
	defer func() {
		s.release("gen")
		if err := s.objects.DeleteCRD(context.WithoutCancel(s.Context()), w.CRD.Name); err != nil {
			s.Error(err)
		}
	}()
	var objects []*unstructured.Unstructured
	for tries := 0; len(objects) < answerObjects && tries < 100*answerObjects; tries++ {
		u := &unstructured.Unstructured{Object: w.Object(r, false)}
		if len(usedGates(w.Model, u)) > 0 {
			u.SetName(fmt.Sprintf("x-%d", len(objects)))
			u.SetNamespace("gen-system")
			objects = append(objects, u)
		}
	}
	for i := range answerSettings {
		data := w.Settings(r)
		parsed, _ := w.Model.ParseSettings(data)
		states := w.Model.Resolve(parsed, feature.Runtime{})
		process, err := w.Process(data)
		if err != nil {
			s.Fatal(err)
		}
		s.settings("gen-system", data)
		if i == 0 {
			s.enforce(set)
		}
		decisions := s.decide(w, objects, states, process, told)
		var round map[string]int
		until(s, fmt.Sprintf("one answer with the settings %v", data), func(ctx context.Context) error {
			round = map[string]int{}
			for i, u := range objects {
				if err := s.saysAlike(ctx, u, &decisions[i], round); err != nil {
					return err
				}
			}
			return nil
		})
		for what, n := range round {
			told[what] += n
		}
	}
}

// usedGates are the features that a new object uses.
func usedGates(m *feature.Model, u *unstructured.Unstructured) (out []*feature.Feature) {
	version := versionOf(u.Object)
	for _, f := range m.Features() {
		if f.UsedBy(u.Object) || slices.ContainsFunc(f.Targets, func(t feature.Target) bool { return t.WholeVersion && t.Version == version }) {
			out = append(out, f)
		}
	}
	return out
}

// decide says what is to come of the creation of objects: the same for the evaluator and a process, if one takes the settings.
func (s *server) decide(w *featuregen.World, objects []*unstructured.Unstructured, states *feature.States, process *gate.Gates, told map[string]int) (out []feature.Decision) {
	s.Helper()
	evaluator := states.Compile()
	for _, u := range objects {
		request := feature.Request{Group: featuregen.Group, Version: versionOf(u.Object), Resource: featuregen.Resource, Object: u.Object}
		d := evaluator.Evaluate(&request)
		out = append(out, d)
		if process == nil {
			continue
		}
		told["asked of a process"]++
		for _, f := range usedGates(w.Model, u) {
			if on := states.OpenFor(f.Spec.Gate, nil); process.Enabled(featuregate.Feature(f.Spec.Gate)) != on {
				s.Errorf("%s is %t for the evaluator, and not for a process", f.Spec.Gate, on)
			}
		}
		if p := process.Evaluator().Evaluate(&request); p.Message() != d.Message() {
			s.Errorf("the evaluator says %q, a process %q", d.Message(), p.Message())
		}
	}
	return out
}

// saysAlike reports how the API server's answer to the creation of an object differs from a decision; nil if it does not.
func (s *server) saysAlike(ctx context.Context, u *unstructured.Unstructured, d *feature.Decision, told map[string]int) error {
	gvr := schema.GroupVersionResource{Group: featuregen.Group, Version: versionOf(u.Object), Resource: featuregen.Resource}
	got, err := s.dynamic.Resource(gvr).Namespace("gen-system").Create(ctx, u.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err != nil && !apierrors.IsInvalid(err):
		return err
	case (err == nil) != d.Allowed():
		return fmt.Errorf("the evaluator says %q of %s; the API server says %v", d.Message(), featuregen.Show(u.Object), err) //nolint:errorlint // it may be nil
	case !d.Allowed():
		told["refused"]++
		return nil
	}
	want := u.Object
	if d.Object != nil {
		told["dropped"]++
		want = d.Object
	}
	told["stored"]++
	if a, b := featuregen.Show(want["spec"]), featuregen.Show(got.Object["spec"]); a != b {
		return fmt.Errorf("the evaluator writes %s, the API server %s", a, b)
	}
	return nil
}
