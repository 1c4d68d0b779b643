//go:build e2e

package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// What of Sluice's own API is not settled, Sluice gates: with the features that sluice manifests prints and the CRDs that are
// generated from the same Go types.
func TestE2ESluiceGatesItsOwnAPI(t *testing.T) {
	w := newWorld(t)
	k := w.featureKinds()
	code, own, _ := sluice(t, "manifests", "--own-features")
	if code != ExitOK {
		t.Fatal(own)
	}
	// The policies read the settings, so those are there first.
	_, err := w.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sluice-system"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	configs := w.kube.CoreV1().ConfigMaps("sluice-system")
	if _, err := configs.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "sluice-features"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	code, policies, errs := sluice(t, "features", "compile", "-f", w.file("own.yaml", own), "-f", "../../config/chart/files/features.yaml")
	if code != ExitOK {
		t.Fatal(errs)
	}
	for _, u := range w.decoded([]byte(policies)) {
		if err := k.ApplyObject(t.Context(), u, false); err != nil {
			t.Fatal(err)
		}
		resource := map[string]string{"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings"}[u.GetKind()]
		gvr := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}
		t.Cleanup(func() {
			if err := w.dynamic.Resource(gvr).Delete(context.WithoutCancel(t.Context()), u.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	components := w.dynamic.Resource(schema.GroupVersionResource{Group: "sluice.dev", Version: "v1alpha1", Resource: "components"})
	create := func() error {
		_, err := components.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sluice.dev/v1alpha1", "kind": "Component", "metadata": map[string]any{"name": w.namespace},
			"spec": map[string]any{"tellUse": []any{"Alpha"}},
		}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	until := func(what string, done func(error) bool) {
		t.Helper()
		var last error
		if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			last = create()
			return done(last), nil
		}); err != nil {
			t.Fatalf("%s: %v", what, last)
		}
	}
	until("the alpha field is let in", func(err error) bool {
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
	})
	if err := create(); err == nil || !strings.Contains(err.Error(), `spec.tellUse: alpha; needs feature "TellUse" of component "sluice"`) {
		t.Errorf("the refusal is %v", err)
	}
	if _, err := configs.Patch(t.Context(), "sluice-features", types.MergePatchType, []byte(`{"data":{"tell-use":"true"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until("the field is refused although its feature is on", func(err error) bool { return err == nil })
}
