//go:build e2e

package enforcement

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
)

// podUses are specs of pods that use a feature of examples/kubernetes each.
var podUses = map[string]string{
	"ProcMountType":               "{hostUsers: false, containers: [{name: c, image: i}, {name: d, image: i, securityContext: {procMount: Unmasked}}]}",
	"UserNamespacesSupport":       "{hostUsers: false, containers: [{name: c, image: i}]}",
	"PodSchedulingReadiness":      "{schedulingGates: [{name: a.dev/b}], containers: [{name: c, image: i}]}",
	"SidecarContainers":           "{initContainers: [{name: a, image: i}, {name: b, image: i, restartPolicy: Always}], containers: [{name: c, image: i}]}",
	"DynamicResourceAllocation":   "{resourceClaims: [{name: r, resourceClaimName: x}], containers: [{name: c, image: i, resources: {claims: [{name: r}]}}]}",
	"RecursiveReadOnlyMounts":     "{volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v, readOnly: true, recursiveReadOnly: Enabled}]}]}",
	"PodLifecycleSleepAction":     "{containers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: 3}}}}]}",
	"ImageVolume":                 "{volumes: [{name: v, image: {reference: r}}], containers: [{name: c, image: i}]}",
	"SupplementalGroupsPolicy":    "{securityContext: {supplementalGroupsPolicy: Strict}, containers: [{name: c, image: i}]}",
	"MatchLabelKeysInPodAffinity": "{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: k, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [x]}]}}, containers: [{name: c, image: i}]}",
	"NodeInclusionPolicy":         "{topologySpreadConstraints: [{maxSkew: 1, topologyKey: k, whenUnsatisfiable: DoNotSchedule, nodeAffinityPolicy: Ignore, labelSelector: {matchLabels: {a: b}}}], containers: [{name: c, image: i}]}",
}

// plainPod has much of what pods have, and uses nothing.
const plainPod = "{terminationGracePeriodSeconds: 3, securityContext: {runAsUser: 1}, volumes: [{name: v, emptyDir: {}}], initContainers: [{name: a, image: i}], " +
	"containers: [{name: c, image: i, ports: [{containerPort: 80}], env: [{name: A, value: b}], resources: {limits: {cpu: 100m}}, securityContext: {}, " +
	"lifecycle: {preStop: {exec: {command: [x]}}}, volumeMounts: [{name: v, mountPath: /v, readOnly: true}]}], " +
	"topologySpreadConstraints: [{maxSkew: 1, topologyKey: k, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]}"

// TestE2EKubernetesOwnKinds gates fields of pods, deployments and jobs as examples/kubernetes does: policies alone enforce them all.
func TestE2EKubernetesOwnKinds(t *testing.T) {
	t.Parallel()
	s := connect(t)
	ctx := t.Context()
	const namespace = "workloads"
	s.namespace(namespace, nil)
	s.namespace("workloads-system", nil)
	s.settings("workloads-system", nil)
	m := kubernetesExample(t)
	set, err := policy.Compile(ctx, m, policy.Options{Kubernetes: "1.36"})
	if err != nil {
		t.Fatal(err)
	}
	if set.Webhook || len(m.Features()) != 13 {
		t.Errorf("of %d features some take the webhook: %+v", len(m.Features()), set.Enforced)
	}
	pods := s.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace)
	deployments := s.dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(namespace)
	jobs := s.dynamic.Resource(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}).Namespace(namespace)
	write := func(ctx context.Context, of dynamic.ResourceInterface, name, spec string, dry ...string) (*unstructured.Unstructured, error) {
		text := "{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: %s}"
		switch of {
		case deployments:
			text = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: %s}}}"
		case jobs:
			text = "{apiVersion: batch/v1, kind: Job, metadata: {name: %s}, spec: %s}"
		}
		return of.Create(ctx, &unstructured.Unstructured{Object: read(t, fmt.Sprintf(text, name, spec))}, metav1.CreateOptions{DryRun: dry})
	}
	// What is stored before the features are closed.
	for gate, spec := range podUses {
		if _, err := write(ctx, pods, "stored-"+strings.ToLower(gate), spec); err != nil {
			t.Fatalf("%s: %v", gate, err)
		}
	}
	if _, err := write(ctx, pods, "plain", plainPod); err != nil {
		t.Fatal(err)
	}
	s.enforce(set)
	defer s.release("workloads")

	const dry = metav1.DryRunAll
	refused := func(err error, gate string) error {
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `"`+gate+`"`) {
			return fmt.Errorf("%s is not refused: %w", gate, err)
		}
		return nil
	}
	for gate, spec := range podUses {
		for _, of := range []dynamic.ResourceInterface{pods, deployments} {
			if of == deployments && gate == "PodSchedulingReadiness" {
				continue // the part is of pods
			}
			until(t, gate, func(ctx context.Context) error {
				u, err := write(ctx, of, "x", spec, dry)
				if gate != "RecursiveReadOnlyMounts" {
					return refused(err, gate)
				}
				if err != nil || strings.Contains(jsonOf(t, u.Object["spec"]), "recursiveReadOnly") {
					return fmt.Errorf("it is not dropped: %w", err)
				}
				return nil
			})
		}
	}
	const job = "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}"
	until(t, "JobManagedBy", func(ctx context.Context) error {
		_, err := write(ctx, jobs, "x", "{managedBy: a.dev/b, "+job+"}", dry)
		return refused(err, "JobManagedBy")
	})
	// Containers of kubectl debug come by a subresource.
	until(t, "EphemeralContainers", func(ctx context.Context) error {
		_, err := pods.Patch(ctx, "plain", types.StrategicMergePatchType, []byte(`{"spec":{"ephemeralContainers":[{"name":"debug","image":"i"}]}}`), metav1.PatchOptions{DryRun: []string{dry}}, "ephemeralcontainers")
		return refused(err, "EphemeralContainers")
	})
	// What uses nothing passes, and what is stored goes on.
	var errs []error
	for _, of := range []dynamic.ResourceInterface{pods, deployments} {
		_, err := write(ctx, of, "fine", plainPod, dry)
		errs = append(errs, err)
	}
	_, err = write(ctx, jobs, "fine", "{"+job+"}", dry)
	errs = append(errs, err)
	for gate := range podUses {
		for _, patch := range []string{`{"metadata":{"labels":{"a":"b"}}}`, `{"spec":{"containers":[{"name":"c","image":"other"}]}}`} {
			_, err := pods.Patch(ctx, "stored-"+strings.ToLower(gate), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	s.settings("workloads-system", map[string]string{"enable-api-fields": "alpha"})
	for gate, spec := range podUses {
		until(t, gate+" to be open", func(ctx context.Context) error {
			_, err := write(ctx, pods, "z", spec, dry)
			return err
		})
	}
}

func kubernetesExample(t *testing.T) *feature.Model {
	t.Helper()
	data, err := os.ReadFile("../../../examples/kubernetes/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c v1alpha1.Component
	var list []v1alpha1.Feature
	for text := range bytes.SplitSeq(data, []byte("\n---\n")) {
		if c.Name == "" {
			err = yaml.UnmarshalStrict(text, &c)
		} else {
			list = append(list, v1alpha1.Feature{})
			err = yaml.UnmarshalStrict(text, &list[len(list)-1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m, findings := feature.Define(&c, list, feature.Options{})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}
