//go:build e2e

package simulate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/internal/clustertest"
	"sluice.dev/internal/featuregen"
	"sluice.dev/internal/kube"
)

var shared clustertest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// server is a trial on a real API server.
type server struct {
	*testing.T
	trial     *featuregen.Trial
	kube      *kube.Client
	things    dynamic.ResourceInterface
	namespace string
}

func object(t *testing.T, v any) *unstructured.Unstructured {
	t.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: m}
}

func until(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

// ensureNamespace makes a namespace with labels, or gives an existing one those labels.
func ensureNamespace(t *testing.T, c kubernetes.Interface, name string, labels map[string]string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	_, err := c.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = c.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// keepWatching has the API server watch ConfigMaps as parameters for as long as it runs. Once the last policy with such a
// parameter is gone it stops, and does not begin anew for the next one (kubernetes/kubernetes issue 130887), so that tests which
// clean up after themselves would be in each other's way.
func keepWatching(t *testing.T, k *kube.Client) {
	t.Helper()
	m := model(t, strings.ReplaceAll(componentYAML, "name: demo}", "name: keep}"), "[{gate: A, parts: [{field: spec.tasksTimeout}]}, {gate: B, whenDisabled: Drop, parts: [{field: spec.onError}]}]")
	set, err := policy.Compile(t.Context(), m, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range set.Objects() {
		if u := object(t, o); strings.HasSuffix(u.GetName(), ".anchor") {
			if err := k.ApplyObject(t.Context(), u, false); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestE2EPoliciesAgreeWithTheEvaluator(t *testing.T) {
	c := shared.Get(t)
	pairs, spoke := 0, 0
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			k, err := kube.New(c.Config())
			if err != nil {
				t.Fatal(err)
			}
			keepWatching(t, k)
			r := rand.New(rand.NewPCG(seed, 11))
			trial, err := featuregen.NewTrial(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			trial.Valid()
			s := &server{T: t, trial: trial, kube: k, namespace: "gen-system"}
			clients := kubernetes.NewForConfigOrDie(c.Config())
			ensureNamespace(t, clients, s.namespace, trial.NamespaceLabels())
			quiet := c.Config()
			quiet.WarningHandler = rest.NoWarnings{}
			s.things = dynamic.NewForConfigOrDie(quiet).
				Resource(schema.GroupVersionResource{Group: featuregen.Group, Version: "v1", Resource: featuregen.Resource}).Namespace(s.namespace)
			s.install()
			defer s.uninstall()
			a, b := s.judge(r, 300)
			pairs, spoke = pairs+a, spoke+b
		})
	}
	if spoke < 200 {
		t.Errorf("%d pairs, of which only %d use what is closed", pairs, spoke)
	}
	t.Logf("%d pairs, %d of them use what is closed", pairs, spoke)
}

// install applies the CRD and the settings.
func (s *server) install() {
	ctx := s.Context()
	crd := object(s.T, s.trial.World.CRD)
	if err := s.kube.ApplyObject(ctx, crd, false); err != nil {
		s.Fatal(err)
	}
	if err := s.kube.WaitServed(ctx, crd); err != nil {
		s.Fatal(err)
	}
	settings := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "feature-flags", "namespace": s.namespace}, "data": map[string]any{},
	}}
	for key, value := range s.trial.Settings {
		if err := unstructured.SetNestedField(settings.Object, value, "data", key); err != nil {
			s.Fatal(err)
		}
	}
	// The guard of the settings of an earlier run may be in force for a moment after it was deleted.
	until(s.T, "the settings to be taken", func() error { return s.kube.ApplyObject(ctx, settings, false) })
}

// policies applies the policies.
func (s *server) policies() {
	for _, o := range s.trial.Set.Objects() {
		if err := s.kube.ApplyObject(s.Context(), object(s.T, o), false); err != nil {
			s.Fatalf("the API server does not take %s: %v", object(s.T, o).GetName(), err)
		}
	}
}

func (s *server) uninstall() {
	ctx := context.WithoutCancel(s.Context())
	dyn := dynamic.NewForConfigOrDie(shared.Get(s.T).Config())
	for _, resource := range []string{"validatingadmissionpolicybindings", "mutatingadmissionpolicybindings", "validatingadmissionpolicies", "mutatingadmissionpolicies"} {
		err := dyn.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}).
			DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "feature.sluice.dev/component=gen"})
		if err != nil {
			s.Error(err)
		}
	}
	if err := s.kube.DeleteCRD(ctx, s.trial.World.CRD.Name); err != nil {
		s.Error(err)
	}
}

// judge stores old objects, applies the policies and tries a creation and an update, both dry runs, for each.
func (s *server) judge(r *rand.Rand, n int) (pairs, spoke int) {
	ctx := s.Context()
	type pair struct{ old, object map[string]any }
	var list []pair
	for i := range n {
		old, object := s.trial.Update(r)
		for _, o := range []map[string]any{old, object} {
			meta, ok := o["metadata"].(map[string]any)
			if !ok {
				s.Fatal("no metadata")
			}
			meta["name"], meta["namespace"] = fmt.Sprintf("x-%d", i), s.namespace
		}
		u := &unstructured.Unstructured{Object: old}
		stored, err := s.things.Create(ctx, u.DeepCopy(), metav1.CreateOptions{})
		if err != nil {
			s.Fatalf("storing %s: %v", featuregen.Show(old), err)
		}
		list = append(list, pair{stored.Object, object})
	}
	s.policies()
	s.settle()
	for _, p := range list {
		fresh := (&unstructured.Unstructured{Object: p.object}).DeepCopy()
		fresh.SetName(fresh.GetName() + "-new")
		got, err := s.known(func() (*unstructured.Unstructured, error) {
			return s.things.Create(ctx, fresh.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		})
		spoke += s.same(nil, fresh.Object, got, err)

		u := (&unstructured.Unstructured{Object: p.object}).DeepCopy()
		u.SetResourceVersion((&unstructured.Unstructured{Object: p.old}).GetResourceVersion())
		got, err = s.known(func() (*unstructured.Unstructured, error) {
			return s.things.Update(ctx, u.DeepCopy(), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		})
		spoke += s.same(p.old, p.object, got, err)
		pairs += 2
	}
	return pairs, spoke
}

// known repeats a request as long as what mutates does not know the kind, which it learns a while after the CRD came.
func (s *server) known(try func() (*unstructured.Unstructured, error)) (got *unstructured.Unstructured, err error) {
	until(s.T, "the kind to be known", func() error {
		if got, err = try(); apierrors.IsServiceUnavailable(err) {
			return err
		}
		return nil
	})
	return got, err
}

// settle waits until the policies are in force, each of which comes when it comes: until objects of all sorts are judged as
// they are to be.
func (s *server) settle() {
	r := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		probe := s.trial.World.Object(r, false)
		d := s.trial.Evaluate(nil, probe)
		want := probe
		if d.Object != nil {
			want = d.Object
		}
		u := &unstructured.Unstructured{Object: probe}
		u.SetNamespace(s.namespace)
		u.SetName("probe")
		until(s.T, "the policies to be in force", func() error {
			got, err := s.things.Create(s.Context(), u.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			switch {
			case (err == nil) != d.Allowed():
				return fmt.Errorf("the evaluator says %q, the API server %w", d.Message(), err)
			case err == nil && featuregen.Show(got.Object["spec"]) != featuregen.Show(want["spec"]):
				return fmt.Errorf("got %s, want %s", featuregen.Show(got.Object["spec"]), featuregen.Show(want["spec"]))
			}
			return nil
		})
	}
}

// same compares what the API server said with the evaluator; 1 if the pair uses what is closed.
func (s *server) same(old, object map[string]any, got *unstructured.Unstructured, err error) int {
	s.Helper()
	d := s.trial.Evaluate(old, object)
	refused := err != nil
	if refused && !apierrors.IsInvalid(err) || refused && !strings.Contains(err.Error(), "AdmissionPolicy") {
		s.Fatalf("%v\nold %s\nnew %s", err, featuregen.Show(old), featuregen.Show(object))
	}
	if refused == d.Allowed() {
		s.Fatalf("the evaluator says %q, the API server %v\nold %s\nnew %s\nsettings %v", d.Message(), err, featuregen.Show(old), featuregen.Show(object), s.trial.Settings)
	}
	want := d.Object
	if want == nil {
		want = object
	}
	if refused {
		s.told(d.Rejected, err)
	} else if a, b := featuregen.Show(want["spec"]), featuregen.Show(got.Object["spec"]); a != b {
		s.Fatalf("the evaluator writes %s, the API server %s\nold %s\nnew %s\nsettings %v", a, b, featuregen.Show(old), featuregen.Show(object), s.trial.Settings)
	}
	if d.Rejected.Count+d.Dropped.Count+d.Warned.Count > 0 {
		return 1
	}
	return 0
}

// told checks that a refusal names places and gates. Where there are several policies only the first speaks.
func (s *server) told(v feature.Violations, err error) {
	s.Helper()
	_, message, ok := strings.Cut(err.Error(), "denied request: ")
	if !ok {
		s.Fatalf("no message: %v", err)
	}
	got := map[string]bool{}
	if !featuregen.Told(got, message) {
		return
	}
	found := 0
	for _, x := range v.List {
		if got[x.State.Feature.Spec.Gate+" "+x.Path] {
			found++
		}
	}
	if found == 0 {
		s.Errorf("the evaluator says %v, the API server %s", v.List, message)
	}
}
