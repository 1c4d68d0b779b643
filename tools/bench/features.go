package main

// How soon does a changed setting count, and how much memory does the controller of features take? Both are
// asked of a real API server.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/controller/features"
	"sluice.dev/tools/clustertest"
)

// gatedKind is a kind with features, all of which are closed.
// Each is a component of its own with a CRD, a ConfigMap and so many features, one for each field of the
// spec.
type gatedKind struct {
	name, mode string
	features   int
}

func (k gatedKind) apiGroup() string { return k.name + ".bench.dev" }

// manifests are the CRD, and the component with its settings and its features.
// The features are alpha and nobody opens them, so that each object with one of the fields is refused.
func (k gatedKind) manifests() string {
	var fields, list strings.Builder
	for i := range k.features {
		fmt.Fprintf(&fields, "\n              field%d: {type: string}", i)
		fmt.Fprintf(&list, "---\napiVersion: sluice.dev/v1alpha1\nkind: Feature\nmetadata: {name: %[1]s.field%[2]d}\n"+
			"spec: {component: %[1]s, gate: Field%[2]d, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: %[3]s, resource: things, field: spec.field%[2]d}]}\n",
			k.name, i, k.apiGroup())
	}
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:%[2]s
---
apiVersion: v1
kind: ConfigMap
metadata: {name: %[3]s, namespace: bench}
data: {field2: 'false'}
---
apiVersion: sluice.dev/v1alpha1
kind: Component
metadata: {name: %[3]s}
spec: {release: v1.5.0, mode: %[4]s, configMap: {namespace: bench, name: %[3]s}}
%[5]s`, k.apiGroup(), fields.String(), k.name, k.mode, list.String())
}

// installKinds installs a role for features, with these kinds.
// The ConfigMaps are named to the role by --feature-settings, which gives it the right to read them.
func installKinds(ctx context.Context, b bench, kinds []gatedKind) (*system, error) {
	options, manifests := []string{"--roles=" + features.Role}, "apiVersion: v1\nkind: Namespace\nmetadata: {name: bench}\n"
	for _, k := range kinds {
		options, manifests = append(options, "--feature-settings=bench/"+k.name), manifests+k.manifests()
	}
	return install(ctx, b, options, manifests)
}

// measureLatency measures how long after a change settings are in force.
// A change is a patch of the ConfigMap, which opens or closes one gate of ten. It is in force when the API server
// answers otherwise than before.
func measureLatency(ctx context.Context, b bench) (err error) {
	changes := map[string]int{"Live": 40, "Baked": 20}
	kinds := []gatedKind{{"live", "Live", 10}, {"baked", "Baked", 10}}
	s, err := installKinds(ctx, b, kinds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := s.run(ctx, features.Role); err != nil {
		return err
	}
	rows := [][]string{{"a change of settings is in force after", "p50", "worst", "changes"}}
	for _, k := range kinds {
		if err := s.untilGate(ctx, k, false); err != nil {
			return err
		}
		var took []time.Duration
		// Gates are opened and closed in turn, so that each change has an effect.
		for i := range changes[k.mode] {
			open := i%2 == 0
			start := time.Now()
			patch := fmt.Sprintf(`{"data":{"field2":"%t"}}`, open)
			if _, err := s.kube.CoreV1().ConfigMaps("bench").Patch(ctx, k.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				return err
			}
			if err := s.untilGate(ctx, k, open); err != nil {
				return err
			}
			took = append(took, time.Since(start))
		}
		rows = append(rows, []string{fmt.Sprintf("%d gates, mode %s", k.features, k.mode), millis(quantile(took, 0.5)), millis(quantile(took, 1)), fmt.Sprint(len(took))})
	}
	printTable(rows...)
	return nil
}

// untilGate asks without a pause until the API server accepts an object that uses the gate Field2, or refuses it.
// Requests follow each other without a pause, so that the time that is measured is exact to one request.
// They are dry runs.
func (s *system) untilGate(ctx context.Context, k gatedKind, open bool) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": k.apiGroup() + "/v1", "kind": "Thing", "metadata": map[string]any{"name": "try", "namespace": "bench"}, "spec": map[string]any{"field2": "x"},
	}}
	for end := time.Now().Add(patience); ; {
		err := s.create(ctx, "/apis/"+k.apiGroup()+"/v1/namespaces/bench/things", object, true)
		if open && err == nil || !open && apierrors.IsInvalid(err) {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Errorf("a change of %s is not in force: %w", k.name, err)
		}
	}
}

// measureMemory measures what the controller takes when it is started beside features that are there already.
// One row is a large component, the other one many components.
func measureMemory(ctx context.Context, b bench) error {
	rows := [][]string{{"components", "features of each", "peak memory", "memory then"}}
	for _, size := range []struct{ components, features int }{{1, 200}, {20, 50}} {
		var kinds []gatedKind
		for i := range size.components {
			kinds = append(kinds, gatedKind{fmt.Sprintf("memory%d", i), "Live", size.features})
		}
		peak, then, err := memoryWith(ctx, b, kinds)
		if err != nil {
			return err
		}
		rows = append(rows, []string{fmt.Sprint(size.components), fmt.Sprint(size.features), mebibytes(peak), mebibytes(then)})
	}
	printTable(rows...)
	return nil
}

// memoryWith returns the peak of the controller, and what it holds when all components are enforced, in KiB. The
// cluster is one of its own.
func memoryWith(ctx context.Context, b bench, kinds []gatedKind) (peak, then int64, err error) {
	s, err := installKinds(ctx, b, kinds)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	roles, err := s.run(ctx, features.Role)
	if err != nil {
		return 0, 0, err
	}
	// The controller compiles one component after the other, and waits for the API server to have type-checked the policies of each.
	// The memory is read only after that, because compiling is what takes most.
	err = clustertest.Until(ctx, patience, "the components to be enforced", func(ctx context.Context) error {
		for _, k := range kinds {
			var c v1alpha1.Component
			text, err := s.kube.CoreV1().RESTClient().Get().AbsPath("/apis/sluice.dev/v1alpha1/components/" + k.name).DoRaw(ctx)
			if err == nil {
				err = json.Unmarshal(text, &c)
			}
			if err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionEnforced) || int(c.Status.Features) != k.features {
				return errors.New(k.name + " is not")
			}
		}
		return nil
	})
	return memoryOf(roles[0].PID(), "VmHWM"), memoryOf(roles[0].PID(), "VmRSS"), err
}
