//go:build e2e

package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"sluice.dev/feature/policy"
	"sluice.dev/internal/kube"
)

// TestE2ELiveSettings goes through a day of a component: settings changed, bad, deleted; a binding deleted and made again.
func TestE2ELiveSettings(t *testing.T) {
	c := shared.Get(t)
	ctx := t.Context()
	k, err := kube.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	keepWatching(t, k)
	clients := kubernetes.NewForConfigOrDie(c.Config())
	dyn := dynamic.NewForConfigOrDie(c.Config())
	ensureNamespace(t, clients, "demo-system", nil)
	var crd unstructured.Unstructured
	if err := yaml.Unmarshal([]byte("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"+crdYAML), &crd.Object); err != nil {
		t.Fatal(err)
	}
	if err := k.ApplyObject(ctx, &crd, false); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := k.DeleteCRD(context.WithoutCancel(ctx), crd.GetName()); err != nil {
			t.Error(err)
		}
	}()
	set, err := policy.Compile(ctx, model(t, componentYAML, parts), policy.Options{Kubernetes: "1.36"})
	if err != nil {
		t.Fatal(err)
	}
	maps := clients.CoreV1().ConfigMaps("demo-system")
	settings := func(data string) error {
		patch := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"feature-flags"},"data":%s}`, data)
		_, err := maps.Patch(ctx, "feature-flags", "application/apply-patch+yaml", []byte(patch), metav1.PatchOptions{FieldManager: "test"})
		return err
	}
	if err := settings(`{}`); err != nil {
		t.Fatal(err)
	}
	apply := func() {
		for _, o := range set.Objects() {
			if err := k.ApplyObject(ctx, object(t, o), false); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply()
	defer func() {
		for _, resource := range []string{"validatingadmissionpolicybindings", "mutatingadmissionpolicybindings", "validatingadmissionpolicies", "mutatingadmissionpolicies"} {
			err := dyn.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}).
				DeleteCollection(context.WithoutCancel(ctx), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: policy.ComponentLabel + "=demo"})
			if err != nil {
				t.Error(err)
			}
		}
	}()
	create := func() error {
		u := &unstructured.Unstructured{Object: read(t, `{apiVersion: demo.dev/v1, kind: Pipeline, metadata: {name: x, namespace: demo-system}, spec: {tasksTimeout: 1h}}`)}
		_, err := dyn.Resource(schema.GroupVersionResource{Group: "demo.dev", Version: "v1", Resource: "pipelines"}).Namespace("demo-system").
			Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	refused := func() error {
		switch err := create(); {
		case err == nil:
			return errors.New("what is closed passes")
		case !strings.Contains(err.Error(), `spec.tasksTimeout: alpha; needs feature "TasksTimeout" of component "demo": set enable-api-fields: alpha or tasks-timeout: "true" in ConfigMap demo-system/feature-flags`):
			return err
		}
		return nil
	}
	until(t, "the policies", refused)
	for range 3 {
		if err := settings(`{"tasks-timeout":"true"}`); err != nil {
			t.Fatal(err)
		}
		until(t, "the gate to open", create)
		if err := settings(`{}`); err != nil {
			t.Fatal(err)
		}
		until(t, "the gate to close", refused)
	}
	for data, want := range map[string]string{
		`{"enable-api-fields":"gamma"}`: "the levels are",
		`{"tasks-timeouts":"true"}`:     "there is no key tasks-timeouts",
		`{"feature-gates":"Nobody=on"}`: "neither true nor false",
	} {
		until(t, "the guard", func() error {
			err := settings(data)
			if err == nil || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("%s: %w", data, errors.Join(err, errors.New("want "+want)))
			}
			return nil
		})
	}
	if err := maps.Delete(ctx, "feature-flags", metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "these are the settings of component") {
		t.Errorf("the settings can be deleted: %v", err)
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "these are the settings of component") {
		t.Errorf("the settings can be deleted with all others: %v", err)
	}

	// Without the second binding the API server would go on with the settings that it knew when the last one went.
	bindings := clients.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	const name = "features.demo.pipelines.demo.dev.reject.v1"
	if err := bindings.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the binding to be gone", create)
	if err := settings(`{"tasks-timeout":"true"}`); err != nil {
		t.Fatal(err)
	}
	apply()
	until(t, "the gate to be open", create)
	if err := settings(`{}`); err != nil {
		t.Fatal(err)
	}
	until(t, "the gate to close after the binding came back", refused)
}

// TestE2EANamespaceTakesItsSettingsWithIt deletes the namespace of settings: what it holds goes, as its controller deletes it.
func TestE2EANamespaceTakesItsSettingsWithIt(t *testing.T) {
	c := shared.Get(t)
	ctx := t.Context()
	k, err := kube.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	clients := kubernetes.NewForConfigOrDie(c.Config())
	const namespace = "leaving-system"
	ensureNamespace(t, clients, namespace, nil)
	set, err := policy.Compile(ctx, model(t, strings.NewReplacer("demo-system", namespace, "name: demo}", "name: leaving}").Replace(componentYAML), parts), policy.Options{Kubernetes: "1.36"})
	if err != nil {
		t.Fatal(err)
	}
	maps := clients.CoreV1().ConfigMaps(namespace)
	for _, name := range []string{"feature-flags", "other"} {
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range set.Objects() {
		if u := object(t, o); strings.HasSuffix(u.GetName(), ".settings") {
			if err := k.ApplyObject(ctx, u, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "the guard", func() error {
		err := maps.Delete(ctx, "feature-flags", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "these are the settings of component") {
			return fmt.Errorf("the settings can be deleted: %w", err)
		}
		return nil
	})
	if err := maps.Delete(ctx, "other", metav1.DeleteOptions{}); err != nil {
		t.Errorf("another ConfigMap cannot be deleted: %v", err)
	}
	if err := clients.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the namespace to let go of its settings", func() error {
		return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	if list, err := maps.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Error(list.Items, err)
	}
}
