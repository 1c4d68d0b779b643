//go:build e2e

package enforcement

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

	"sluice.dev/feature/policy"
)

const liveCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pipelines.live.e2e.dev}
spec:
  group: live.e2e.dev
  scope: Namespaced
  names: {kind: Pipeline, plural: pipelines, singular: pipeline, listKind: PipelineList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {tasksTimeout: {type: string}, debug: {type: string}}}}}}
`

// TestE2ELiveSettings goes through a day of a component: settings changed, bad, deleted; a binding deleted and made again.
func TestE2ELiveSettings(t *testing.T) {
	t.Parallel()
	s := connect(t)
	ctx := t.Context()
	s.namespace("live-system", nil)
	s.applyYAML(liveCRD)
	set, err := policy.Compile(ctx, model(t, "{metadata: {name: live}, spec: {release: v1.5.0, configMap: {namespace: live-system, name: feature-flags}}}", `
- {gate: TasksTimeout, parts: [{group: live.e2e.dev, resource: pipelines, field: spec.tasksTimeout}]}
- {gate: Debug, whenDisabled: Drop, parts: [{group: live.e2e.dev, resource: pipelines, field: spec.debug}]}
`, liveCRD), policy.Options{Kubernetes: "1.36"})
	if err != nil {
		t.Fatal(err)
	}
	clients := s.clients
	maps := clients.CoreV1().ConfigMaps("live-system")
	settings := func(data string) error {
		patch := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"feature-flags"},"data":%s}`, data)
		_, err := maps.Patch(ctx, "feature-flags", "application/apply-patch+yaml", []byte(patch), metav1.PatchOptions{FieldManager: "test"})
		return err
	}
	if err := settings(`{}`); err != nil {
		t.Fatal(err)
	}
	apply := func() { s.enforce(set) }
	apply()
	defer s.release("live")
	create := func() error {
		u := &unstructured.Unstructured{Object: read(t, `{apiVersion: live.e2e.dev/v1, kind: Pipeline, metadata: {name: x, namespace: live-system}, spec: {tasksTimeout: 1h}}`)}
		_, err := s.dynamic.Resource(schema.GroupVersionResource{Group: "live.e2e.dev", Version: "v1", Resource: "pipelines"}).Namespace("live-system").
			Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	refused := func() error {
		switch err := create(); {
		case err == nil:
			return errors.New("what is closed passes")
		case !strings.Contains(err.Error(), `spec.tasksTimeout: alpha; needs feature "TasksTimeout" of component "live": set tasks-timeout: "true", or enable-api-fields: alpha without tasks-timeout, in ConfigMap live-system/feature-flags`):
			return err
		}
		return nil
	}
	until(t, "the policies", func(context.Context) error { return refused() })
	for range 3 {
		if err := settings(`{"tasks-timeout":"true"}`); err != nil {
			t.Fatal(err)
		}
		until(t, "the gate to open", func(context.Context) error { return create() })
		if err := settings(`{}`); err != nil {
			t.Fatal(err)
		}
		until(t, "the gate to close", func(context.Context) error { return refused() })
	}
	for data, want := range map[string]string{
		`{"enable-api-fields":"gamma"}`: "the levels are",
		`{"tasks-timeouts":"true"}`:     "there is no key tasks-timeouts",
		`{"feature-gates":"Nobody=on"}`: "neither true nor false",
	} {
		until(t, "the guard", func(context.Context) error {
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
	const name = "features.live.pipelines.live.e2e.dev.reject.v1"
	if err := bindings.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the binding to be gone", func(context.Context) error { return create() })
	if err := settings(`{"tasks-timeout":"true"}`); err != nil {
		t.Fatal(err)
	}
	apply()
	until(t, "the gate to be open", func(context.Context) error { return create() })
	if err := settings(`{}`); err != nil {
		t.Fatal(err)
	}
	until(t, "the gate to close after the binding came back", func(context.Context) error { return refused() })
}

// TestE2EANamespaceTakesItsSettingsWithIt deletes the namespace of settings: what it holds goes, as its controller deletes it.
func TestE2EANamespaceTakesItsSettingsWithIt(t *testing.T) {
	t.Parallel()
	s := connect(t)
	ctx := t.Context()
	clients := s.clients
	const namespace = "leaving-system"
	s.namespace(namespace, nil)
	set, err := policy.Compile(ctx, model(t, "{metadata: {name: leaving}, spec: {release: v1.5.0, configMap: {namespace: leaving-system, name: feature-flags}}}", `
- {gate: TasksTimeout, parts: [{group: leaving.e2e.dev, resource: pipelines, field: spec.tasksTimeout}]}
`), policy.Options{Kubernetes: "1.36"})
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
		if u := s.unstructured(o); strings.HasSuffix(u.GetName(), ".settings") {
			s.apply(u)
		}
	}
	until(t, "the guard", func(context.Context) error {
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
	until(t, "the namespace to let go of its settings", func(context.Context) error {
		return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	if list, err := maps.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Error(list.Items, err)
	}
}
