//go:build e2e

package enforcement

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// use is a write that uses one part of examples/kubernetes.
type use struct {
	gate, resource string
	// field is the part as features.yaml names it.
	field string
	// spec is that of the object, or of the ephemeral container that is added to a pod if debug is set.
	spec  string
	debug bool
}

// place is where the use is in the object.
func (u *use) place() string { return strings.ReplaceAll(u.field, "[*]", "[0]") }

// isIn reports whether an object has the field.
func (u *use) isIn(o *unstructured.Unstructured) bool { return hasField(o.Object, u.field) }

func hasField(v any, path string) bool {
	name, rest, more := strings.Cut(path, ".")
	name, list := strings.CutSuffix(name, "[*]")
	object, _ := v.(map[string]any)
	v, ok := object[name]
	if !ok || !more {
		return ok
	}
	if !list {
		return hasField(v, rest)
	}
	items, _ := v.([]any)
	return slices.ContainsFunc(items, func(item any) bool { return hasField(item, rest) })
}

// podUses are the places of a pod's spec that Kubernetes drops while the gates are off, as dropDisabledFields of
// k8s.io/kubernetes/pkg/api/pod/util.go lists them. PodSchedulingReadiness, which it no longer has, came in the same way.
var podUses = [][3]string{
	{"UserNamespacesSupport", "hostUsers", "hostUsers: false"},
	{"PodSchedulingReadiness", "schedulingGates", "schedulingGates: [{name: a.dev/b}]"},
	{"SidecarContainers", "initContainers[*].restartPolicy", "initContainers: [{name: b, image: i, restartPolicy: Always}]"},
	{"DynamicResourceAllocation", "resourceClaims", "resourceClaims: [{name: r, resourceClaimName: x}]"},
	{"ImageVolume", "volumes[*].image", "volumes: [{name: v, image: {reference: r}}]"},
	{"SupplementalGroupsPolicy", "securityContext.supplementalGroupsPolicy", "securityContext: {supplementalGroupsPolicy: Merge}"},
	{"NodeInclusionPolicy", "topologySpreadConstraints[*].nodeAffinityPolicy", "topologySpreadConstraints: [" + spread + ", nodeAffinityPolicy: Ignore}]"},
	{"NodeInclusionPolicy", "topologySpreadConstraints[*].nodeTaintsPolicy", "topologySpreadConstraints: [" + spread + ", nodeTaintsPolicy: Honor}]"},
}

const spread = "{maxSkew: 1, topologyKey: k, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}"

// containerUses are the same for what a container has: an init container too, and an ephemeral one where the API server allows it.
var containerUses = []struct {
	gate, field string
	// container is what the container has, and pod what its pod needs for that.
	container, pod string
	// lasting means that an init container has it only if it keeps running, and debug that an ephemeral container can have it.
	lasting, debug bool
}{
	{gate: "ProcMountType", field: "securityContext.procMount", container: "securityContext: {procMount: Unmasked}", pod: "hostUsers: false", debug: true},
	{gate: "DynamicResourceAllocation", field: "resources.claims", container: "resources: {claims: [{name: r}]}", pod: "resourceClaims: [{name: r, resourceClaimName: x}]"},
	{
		gate: "RecursiveReadOnlyMounts", field: "volumeMounts[*].recursiveReadOnly",
		container: "volumeMounts: [{name: v, mountPath: /v, readOnly: true, recursiveReadOnly: Enabled}]", pod: "volumes: [{name: v, emptyDir: {}}]", debug: true,
	},
	{gate: "PodLifecycleSleepAction", field: "lifecycle.preStop.sleep", container: "lifecycle: {preStop: {sleep: {seconds: 3}}}", lasting: true},
	{gate: "PodLifecycleSleepAction", field: "lifecycle.postStart.sleep", container: "lifecycle: {postStart: {sleep: {seconds: 3}}}", lasting: true},
}

const (
	jobTemplate = "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}"
	// debuggedPod has what the uses of ephemeral containers need.
	debuggedPod = "{hostUsers: false, resourceClaims: [{name: r, resourceClaimName: x}], volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: i}]}"
)

// kubernetesUses lists a use of each part of examples/kubernetes.
func kubernetesUses() (out []use) {
	const rest = ", containers: [{name: c, image: i}]}"
	add := func(gate, field, spec string) {
		out = append(out, use{gate: gate, resource: "pods", field: "spec." + field, spec: spec}, use{gate: gate, resource: "deployments", field: "spec.template.spec." + field, spec: deploymentOf(spec)})
	}
	for _, u := range podUses {
		add(u[0], u[1], "{"+u[2]+rest)
	}
	for _, affinity := range []string{"podAffinity", "podAntiAffinity"} {
		for _, keys := range []string{"matchLabelKeys", "mismatchLabelKeys"} {
			const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
			term := "{topologyKey: k, labelSelector: {matchLabels: {a: b}}, " + keys + ": [x]}"
			at := "{affinity: {" + affinity + ": {%s: [%s]}}" + rest
			add("MatchLabelKeysInPodAffinity", fmt.Sprintf("affinity.%s.%s[*].%s", affinity, required, keys), fmt.Sprintf(at, required, term))
			add("MatchLabelKeysInPodAffinity", fmt.Sprintf("affinity.%s.%s[*].podAffinityTerm.%s", affinity, preferred, keys), fmt.Sprintf(at, preferred, "{weight: 1, podAffinityTerm: "+term+"}"))
		}
	}
	for _, u := range containerUses {
		pod, kept := "{", ""
		if u.pod != "" {
			pod += u.pod + ", "
		}
		if u.lasting {
			kept = "restartPolicy: Always, "
		}
		add(u.gate, "containers[*]."+u.field, pod+"containers: [{name: c, image: i, "+u.container+"}]}")
		add(u.gate, "initContainers[*]."+u.field, pod+"initContainers: [{name: b, image: i, "+kept+u.container+"}]"+rest)
		if u.debug {
			out = append(out, debugUse(u.gate, u.field, u.container))
		}
	}
	return append(out,
		use{gate: "EphemeralContainers", resource: "pods", field: "spec.ephemeralContainers", debug: true, spec: "{name: e, image: i}"},
		use{gate: "JobManagedBy", resource: "jobs", field: "spec.managedBy", spec: "{managedBy: a.dev/b, " + jobTemplate + "}"},
		use{gate: "JobManagedBy", resource: "cronjobs", field: "spec.jobTemplate.spec.managedBy", spec: cronJobOf("{managedBy: a.dev/b, " + jobTemplate + "}")},
	)
}

// impossibleUses are places of the same fields that the example leaves out, because the API server refuses them itself.
var impossibleUses = []use{
	{resource: "pods", field: "spec.resources.claims", spec: podWithClaims},
	{resource: "deployments", field: "spec.template.spec.resources.claims", spec: deploymentOf(podWithClaims)},
	{
		resource: "deployments", field: "spec.template.spec.ephemeralContainers",
		spec: deploymentOf("{ephemeralContainers: [{name: e, image: i}], containers: [{name: c, image: i}]}"),
	},
	debugUse("", "resources.claims", "resources: {claims: [{name: r}]}"),
	debugUse("", "lifecycle.preStop.sleep", "lifecycle: {preStop: {sleep: {seconds: 3}}}"),
	debugUse("", "lifecycle.postStart.sleep", "lifecycle: {postStart: {sleep: {seconds: 3}}}"),
}

const podWithClaims = "{resources: {claims: [{name: r}]}, resourceClaims: [{name: r, resourceClaimName: x}], containers: [{name: c, image: i}]}"

func debugUse(gate, field, container string) use {
	return use{gate: gate, resource: "pods", field: "spec.ephemeralContainers[*]." + field, spec: "{name: e, image: i, " + container + "}", debug: true}
}

func deploymentOf(pod string) string {
	return "{selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: " + pod + "}}"
}

func cronJobOf(job string) string {
	return "{schedule: '* * * * *', jobTemplate: {spec: " + job + "}}"
}

// plainPod has much of what pods have, and uses nothing.
const plainPod = "{terminationGracePeriodSeconds: 3, securityContext: {runAsUser: 1}, volumes: [{name: v, emptyDir: {}}], initContainers: [{name: a, image: i}], " +
	"containers: [{name: c, image: i, ports: [{containerPort: 80}], env: [{name: A, value: b}], resources: {limits: {cpu: 100m}}, securityContext: {}, " +
	"lifecycle: {preStop: {exec: {command: [x]}}}, volumeMounts: [{name: v, mountPath: /v, readOnly: true}]}], " +
	"topologySpreadConstraints: [{maxSkew: 1, topologyKey: k, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]}"

// workloads writes objects of the kinds that examples/kubernetes gates.
type workloads struct{ *server }

func (w workloads) of(resource string) dynamic.ResourceInterface {
	group := map[string]string{"deployments": "apps", "jobs": "batch", "cronjobs": "batch"}[resource]
	return w.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).Namespace("workloads")
}

func (w workloads) create(ctx context.Context, resource, name, spec string, dry ...string) (*unstructured.Unstructured, error) {
	kind := map[string]string{"pods": "v1, kind: Pod", "deployments": "apps/v1, kind: Deployment", "jobs": "batch/v1, kind: Job", "cronjobs": "batch/v1, kind: CronJob"}[resource]
	text := fmt.Sprintf("{apiVersion: %s, metadata: {name: %s}, spec: %s}", kind, name, spec)
	return w.of(resource).Create(ctx, &unstructured.Unstructured{Object: read(w, text)}, metav1.CreateOptions{DryRun: dry})
}

// debug adds an ephemeral container to a pod, as kubectl debug does.
func (w workloads) debug(ctx context.Context, pod, container string, dry ...string) (*unstructured.Unstructured, error) {
	patch, err := yaml.YAMLToJSON([]byte("{spec: {ephemeralContainers: [" + container + "]}}"))
	if err != nil {
		return nil, err
	}
	return w.of("pods").Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{DryRun: dry}, "ephemeralcontainers")
}

// try uses a part anew, without storing anything.
func (w workloads) try(ctx context.Context, u *use) (*unstructured.Unstructured, error) {
	if u.debug {
		return w.debug(ctx, "debugged", u.spec, metav1.DryRunAll)
	}
	return w.create(ctx, u.resource, "new", u.spec, metav1.DryRunAll)
}

// store keeps an object that uses a part.
func (w workloads) store(name string, u *use) (err error) {
	if !u.debug {
		_, err = w.create(w.Context(), u.resource, name, u.spec)
		return err
	}
	if _, err = w.create(w.Context(), "pods", name, debuggedPod); err == nil {
		_, err = w.debug(w.Context(), name, u.spec)
	}
	return err
}

// refusesOrDrops says how the answer to a new use differs from what the example declares while the feature is off.
func (w workloads) refusesOrDrops(ctx context.Context, u *use) error {
	switch o, err := w.try(ctx, u); {
	case u.gate == "RecursiveReadOnlyMounts":
		if err != nil || u.isIn(o) {
			return fmt.Errorf("%s %s is not dropped: %w", u.resource, u.field, err)
		}
	case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), u.place()+": ") || !strings.Contains(err.Error(), "needs feature "+strconv.Quote(u.gate)):
		return fmt.Errorf("%s of %s %s is not refused: %w", u.gate, u.resource, u.field, err)
	}
	return nil
}

// letsPass says how the answer to a new use differs from what is to be while the feature is on.
func (w workloads) letsPass(ctx context.Context, u *use) error {
	if o, err := w.try(ctx, u); err != nil || !u.isIn(o) {
		return fmt.Errorf("%s %s does not pass: %w", u.resource, u.field, err)
	}
	return nil
}

// apiServerRefuses says if the API server takes what it has to refuse itself, whatever is on.
func (w workloads) apiServerRefuses(ctx context.Context, u *use) error {
	if _, err := w.try(ctx, u); !apierrors.IsInvalid(err) || strings.Contains(err.Error(), "needs feature") {
		return fmt.Errorf("the API server itself does not refuse %s %s: %w", u.resource, u.field, err)
	}
	return nil
}

// updateStored changes a stored object that uses a part, which has to stay as it is.
func (w workloads) updateStored(name string, u *use) error {
	besides := map[string]string{
		"pods":        `{"spec":{"containers":[{"name":"c","image":"other"}]}}`,
		"deployments": `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"other"}]}}}}`,
		"jobs":        `{"spec":{"suspend":true}}`,
		"cronjobs":    `{"spec":{"suspend":true}}`,
	}
	for _, patch := range []string{`{"metadata":{"labels":{"a":"b"}}}`, besides[u.resource]} {
		switch o, err := w.of(u.resource).Patch(w.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); {
		case err != nil:
			return fmt.Errorf("%s %s: %w", u.resource, u.field, err)
		case !u.isIn(o):
			return fmt.Errorf("%s %s is gone", u.resource, u.field)
		}
	}
	return nil
}

// letsPlainPass tries new objects that use nothing.
func (w workloads) letsPlainPass(ctx context.Context) error {
	var errs []error
	for resource, spec := range map[string]string{
		"pods": plainPod, "deployments": deploymentOf(plainPod), "jobs": "{" + jobTemplate + "}", "cronjobs": cronJobOf("{" + jobTemplate + "}"),
	} {
		_, err := w.create(ctx, resource, "fine", spec, metav1.DryRunAll)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// TestE2EKubernetesOwnKinds gates fields of Kubernetes' own kinds as examples/kubernetes does: policies alone enforce every part of it.
func TestE2EKubernetesOwnKinds(t *testing.T) {
	t.Parallel()
	w := workloads{connect(t)}
	w.namespace("workloads", nil)
	w.namespace("workloads-system", nil)
	w.settings("workloads-system", nil)
	m, uses := kubernetesExample(t), kubernetesUses()
	if diff := cmp.Diff(partsOf(m), fieldsOf(uses)); diff != "" {
		t.Fatalf("the parts of the example are not those in which Kubernetes drops fields (+):\n%s", diff)
	}
	set, err := policy.Compile(t.Context(), m, policy.Options{Kubernetes: "1.36"})
	if err != nil {
		t.Fatal(err)
	}
	if set.Webhook {
		t.Errorf("some parts take the webhook: %+v", set.Enforced)
	}
	if _, err := w.create(t.Context(), "pods", "debugged", debuggedPod); err != nil {
		t.Fatal(err)
	}
	for i := range uses {
		if err := w.store(fmt.Sprintf("stored-%d", i), &uses[i]); err != nil {
			t.Fatalf("%s %s: %v", uses[i].resource, uses[i].field, err)
		}
	}
	w.enforce(set)
	defer w.release("workloads")

	// With all features off, as by default, what uses nothing passes, and what is stored goes on.
	until(t, "the policies", func(ctx context.Context) error { return w.refusesOrDrops(ctx, &uses[0]) })
	if err := w.letsPlainPass(t.Context()); err != nil {
		t.Error(err)
	}
	for i := range uses {
		if err := w.updateStored(fmt.Sprintf("stored-%d", i), &uses[i]); err != nil {
			t.Error(err)
		}
	}
	all := func(which []use, judge func(ctx context.Context, u *use) error) {
		t.Helper()
		for i := range which {
			until(t, which[i].field, func(ctx context.Context) error { return judge(ctx, &which[i]) })
		}
	}
	// Some places need other features, so that one is off at a time.
	for _, f := range m.Features() {
		w.settings("workloads-system", map[string]string{"feature-gates": "AllAlpha=true", feature.Kebab(f.Spec.Gate): "false"})
		all(slices.DeleteFunc(slices.Clone(uses), func(u use) bool { return u.gate != f.Spec.Gate }), w.refusesOrDrops)
	}
	w.settings("workloads-system", map[string]string{"feature-gates": "AllAlpha=true"})
	all(uses, w.letsPass)
	all(impossibleUses, w.apiServerRefuses)
}

// partsOf lists what features gate.
func partsOf(m *feature.Model) (out []string) {
	for _, f := range m.Features() {
		for _, p := range f.Spec.Parts {
			out = append(out, fmt.Sprintf("%s: %s %s", f.Spec.Gate, p.Resource, p.Field))
		}
	}
	slices.Sort(out)
	return out
}

// fieldsOf lists what is used.
func fieldsOf(uses []use) (out []string) {
	for _, u := range uses {
		out = append(out, fmt.Sprintf("%s: %s %s", u.gate, u.resource, u.field))
	}
	slices.Sort(out)
	return out
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
