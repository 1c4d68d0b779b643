//go:build e2e

package features

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/feature/policy"
	"sluice.dev/tools/clustertest"
)

// TestE2EMoves: what moves from one policy to another that exists is written there first.
func TestE2EMoves(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "moves", sceneOptions{gates: []string{"TasksTimeout", "TaskTimeout"}})
	c.features = 3
	c.apply(c.feature("RetryOnError", featureParts["RetryOnError"], sceneOptions{whenDisabled: "Warn"}))
	c.enforced()
	policies := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	o := metav1.ListOptions{LabelSelector: policy.ComponentLabel + "=moves"}
	const reject, warn = "features.moves.pipelines.moves.e2e.dev.reject.v1", "features.moves.pipelines.moves.e2e.dev.warn.v1"
	var before *admissionregistrationv1.ValidatingAdmissionPolicyList
	var gates map[string]string // of each policy
	eventually(t, "the policies", func(ctx context.Context) (err error) {
		if before, err = policies.List(ctx, o); err != nil {
			return err
		}
		gates = map[string]string{}
		for i := range before.Items {
			gates[before.Items[i].Name] = before.Items[i].Annotations[policy.GatesAnnotation]
		}
		if gates[reject] != "TaskTimeout,TasksTimeout" || gates[warn] != "RetryOnError" {
			return fmt.Errorf("they are %v", gates)
		}
		return nil
	})
	o.ResourceVersion = before.ResourceVersion
	w, err := policies.Watch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	c.apply(c.feature("TasksTimeout", featureParts["TasksTimeout"], sceneOptions{whenDisabled: "Warn"}))
	var order []string
	end := time.NewTimer(clustertest.Patience)
	defer end.Stop()
	for len(order) < 2 {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				t.Fatal("the watch has ended")
			}
			p, ok := event.Object.(*admissionregistrationv1.ValidatingAdmissionPolicy)
			if !ok || p.Annotations[policy.GatesAnnotation] == gates[p.Name] {
				continue
			}
			gates[p.Name] = p.Annotations[policy.GatesAnnotation]
			order = append(order, p.Name)
			if p.Name == warn && !slices.Contains(strings.Split(gates[warn], ","), "TasksTimeout") {
				t.Errorf("%s has %s", warn, gates[warn])
			}
		case <-end.C:
			t.Fatalf("only %v were written", order)
		}
	}
	if diff := cmp.Diff([]string{warn, reject}, order); diff != "" {
		t.Error(diff)
	}
	c.enforced()
	c.open(timeout)
	c.inForce("{tasks: [{name: a, timeout: 1m}]}", "TaskTimeout")
}
