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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"sluice.dev/feature/policy"
)

const subresourceFeatures = `
- gate: Memory
  parts: [{group: "", resource: pods, versions: [v1], field: "spec.containers[*].resources.limits.memory", values: [2Gi]}]
- gate: Debug
  parts: [{group: "", resource: pods, versions: [v1], field: "spec.ephemeralContainers[*].image", pattern: "^evil"}]
- gate: Bound
  parts: [{group: "", resource: pods, versions: [v1], field: spec.nodeName}]
- gate: Behavior
  parts: [{group: autoscaling, resource: horizontalpodautoscalers, versions: [v2], field: spec.behavior}]
- gate: Large
  parts:
  - {group: apps, resource: deployments, versions: [v1], field: spec.replicas, beyond: {maximum: 5}}
  - {group: apps, resource: statefulsets, versions: [v1], field: spec.replicas, beyond: {maximum: 5}}
  - {group: apps, resource: replicasets, versions: [v1], field: spec.replicas, beyond: {maximum: 5}}
  - {group: "", resource: replicationcontrollers, versions: [v1], field: spec.replicas, beyond: {maximum: 5}}
`

// TestE2ESubresourcesThatWriteTheSpec tries the subresources of Kubernetes' own kinds by which the spec of an object is written.
func TestE2ESubresourcesThatWriteTheSpec(t *testing.T) {
	t.Parallel()
	s := connect(t)
	ctx := t.Context()
	const namespace = "subresources"
	s.namespace(namespace, nil)
	m := model(t, "{metadata: {name: subresources}, spec: {release: v1.0.0}}", subresourceFeatures)
	set, err := policy.Compile(ctx, m, policy.Options{Kubernetes: "1.36"})
	if err != nil {
		t.Fatal(err)
	}
	if set.Webhook {
		t.Errorf("something takes the webhook: %+v", set.Enforced)
	}
	dry := []string{metav1.DryRunAll}
	of := func(group, resource string, dry ...string) func(context.Context, string, types.PatchType, string, ...string) error {
		return func(ctx context.Context, name string, kind types.PatchType, text string, sub ...string) error {
			data, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				return err
			}
			_, err = s.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).Namespace(namespace).Patch(ctx, name, kind, data, metav1.PatchOptions{DryRun: dry}, sub...)
			return err
		}
	}
	create := func(group, resource, text string) error {
		_, err := s.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).Namespace(namespace).
			Create(ctx, &unstructured.Unstructured{Object: read(t, text)}, metav1.CreateOptions{})
		return err
	}
	pods := s.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace)
	const one = "{cpu: 100m, memory: 1Gi}"
	pod := "{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c, image: i, resources: {limits: " + one + ", requests: " + one + "}}]}}"
	template := "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}"
	scaled := map[string]string{
		"deployments":            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {replicas: 1, " + template + "}}",
		"statefulsets":           "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: {serviceName: x, replicas: 1, " + template + "}}",
		"replicasets":            "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: x}, spec: {replicas: 1, " + template + "}}",
		"replicationcontrollers": "{apiVersion: v1, kind: ReplicationController, metadata: {name: x}, spec: {replicas: 1, selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}",
	}
	errs := []error{create("", "pods", fmt.Sprintf(pod, "x"))}
	for resource, text := range scaled {
		errs = append(errs, create(groupOfScaled(resource), resource, text))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	s.enforce(set)
	defer s.release("subresources")

	refused := func(what string, try func(ctx context.Context) error) {
		t.Helper()
		until(t, what, func(ctx context.Context) error {
			if err := try(ctx); !apierrors.IsInvalid(err) {
				return fmt.Errorf("%s is not refused: %w", what, err)
			}
			return nil
		})
	}
	// All are dry runs: what passes while policies are not in force yet would be stored, and could stay.
	for what, x := range map[string][2]string{
		"resize":              {`{"spec":{"containers":[{"name":"c","resources":{"limits":{"memory":"2Gi"},"requests":{"memory":"2Gi"}}}]}}`, "resize"},
		"ephemeralcontainers": {`{"spec":{"ephemeralContainers":[{"name":"e","image":"evil:1"}]}}`, "ephemeralcontainers"},
	} {
		refused(what, func(ctx context.Context) error {
			return of("", "pods", dry...)(ctx, "x", types.StrategicMergePatchType, x[0], x[1])
		})
	}
	for resource := range scaled {
		for _, kind := range []string{"{spec: {replicas: 6}}", "[{op: replace, path: /spec/replicas, value: 2147483647}]"} {
			refused("scale of "+resource, func(ctx context.Context) error {
				at := types.MergePatchType
				if kind[0] == '[' {
					at = types.JSONPatchType
				}
				return of(groupOfScaled(resource), resource, dry...)(ctx, "x", at, kind, "scale")
			})
		}
		if err := of(groupOfScaled(resource), resource)(ctx, "x", types.MergePatchType, "{spec: {replicas: 5}}", "scale"); err != nil {
			t.Errorf("%s: scaling within the bounds: %v", resource, err)
		}
	}
	refused("a pod with a node", func(ctx context.Context) error {
		u := &unstructured.Unstructured{Object: read(t, "{apiVersion: v1, kind: Pod, metadata: {name: bound}, spec: {nodeName: node-1, containers: [{name: c, image: i}]}}")}
		_, err := pods.Create(ctx, u, metav1.CreateOptions{DryRun: dry})
		return err
	})
	// An older version keeps in annotations what it has no fields for.
	hpa := func(annotations string) error {
		u := &unstructured.Unstructured{Object: read(t, "{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: x, annotations: "+annotations+"}, "+
			"spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}}}")}
		_, err := s.dynamic.Resource(schema.GroupVersionResource{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers"}).Namespace(namespace).Create(ctx, u, metav1.CreateOptions{DryRun: dry})
		return err
	}
	until(t, "a field of a newer version in an annotation of an older one", func(context.Context) error {
		err := hpa(`{autoscaling.alpha.kubernetes.io/behavior: '{"ScaleDown":{"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":60}]}}'}`)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `"Behavior"`) {
			return fmt.Errorf("it is not refused: %w", err)
		}
		return nil
	})
	if err := hpa("{a: b}"); err != nil {
		t.Errorf("the older version: %v", err)
	}
	// What is within the bounds passes, and so does a binding: without it nothing would run.
	if err := of("", "pods")(ctx, "x", types.StrategicMergePatchType, "{spec: {containers: [{name: c, resources: {limits: {cpu: 200m}, requests: {cpu: 200m}}}]}}", "resize"); err != nil {
		t.Errorf("resize: %v", err)
	}
	if err := of("", "pods")(ctx, "x", types.StrategicMergePatchType, "{spec: {ephemeralContainers: [{name: e, image: fine}]}}", "ephemeralcontainers"); err != nil {
		t.Errorf("ephemeralcontainers: %v", err)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}
	if err := s.clients.CoreV1().Pods(namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Errorf("binding: %v", err)
	}
	if err := of("", "pods")(ctx, "x", types.MergePatchType, "{metadata: {labels: {a: b}}}"); err != nil {
		t.Errorf("a label of what was bound: %v", err)
	}
}

func groupOfScaled(resource string) string {
	if resource == "replicationcontrollers" {
		return ""
	}
	return "apps"
}
