//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/controller/features"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/nodeless"
)

// stuckFeatures are enforced by policies and by the webhook, by refusal and by dropping, of fields, items and whole versions.
const stuckFeatures = `
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.script}
spec: {component: %[1]s, gate: Script, whenDisabled: Drop, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: %[1]s.e2e.dev, resource: pipelines, field: spec.script}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.paused}
spec: {component: %[1]s, gate: Paused, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: apps, resource: deployments, field: spec.template.spec.nodeName, pattern: '^[a-z]+(-[a-z]+)*(-[a-z]+)*$'}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.pod-hostname}
spec: {component: %[1]s, gate: PodHostname, whenDisabled: Drop, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: apps, resource: deployments, field: spec.template.spec.hostname, pattern: '^[a-z]+(-[a-z]+)*(-[a-z]+)*$'}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.images}
spec: {component: %[1]s, gate: Images, ratchet: Unchanged, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: apps, resource: deployments, field: "spec.template.spec.containers[*].imagePullPolicy"}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.old-sets}
spec: {component: %[1]s, gate: OldSets, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: apps, resource: daemonsets, versions: [v1], wholeVersion: true}]}
`

// stuckObject is a stored object of which metadata and status are to stay free.
type stuckObject struct {
	name   string
	at     dynamic.ResourceInterface
	status string // one that it takes
}

// write is what nothing may ever hinder.
type write struct {
	name string
	do   func(ctx context.Context, o *stuckObject) error
}

func (o *stuckObject) patch(ctx context.Context, kind types.PatchType, text string, sub ...string) error {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{}
	if kind == types.ApplyPatchType {
		options.FieldManager = "labels"
	}
	_, err = o.at.Patch(ctx, o.name, kind, data, options, sub...)
	return err
}

func merging(name, text string, sub ...string) write {
	return write{name, func(ctx context.Context, o *stuckObject) error {
		return o.patch(ctx, types.MergePatchType, text, sub...)
	}}
}

// freeWrites are made one after the other; the last of them has the object gone.
var freeWrites = []write{
	merging("a label", "{metadata: {labels: {a: b}}}"),
	merging("an annotation", "{metadata: {annotations: {a: b}}}"),
	{"an annotation by JSON patch", func(ctx context.Context, o *stuckObject) error {
		return o.patch(ctx, types.JSONPatchType, "[{op: add, path: /metadata/annotations/c, value: d}]")
	}},
	{"an applied label", func(ctx context.Context, o *stuckObject) error {
		u, err := o.at.Get(ctx, o.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return o.patch(ctx, types.ApplyPatchType, fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, labels: {c: d}}}", u.GetAPIVersion(), u.GetKind(), o.name))
	}},
	merging("a finalizer", "{metadata: {finalizers: [e2e.dev/stays]}}"),
	{"the status", func(ctx context.Context, o *stuckObject) error {
		return o.patch(ctx, types.MergePatchType, "{status: "+o.status+"}", "status")
	}},
	{"an update that changes nothing", func(ctx context.Context, o *stuckObject) error {
		u, err := o.at.Get(ctx, o.name, metav1.GetOptions{})
		if err == nil {
			_, err = o.at.Update(ctx, u, metav1.UpdateOptions{})
		}
		return err
	}},
	merging("an owner", "{metadata: {ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: x}]}}"),
	{"deletion", func(ctx context.Context, o *stuckObject) error {
		return o.at.Delete(ctx, o.name, metav1.DeleteOptions{})
	}},
	merging("a label while it is deleted", "{metadata: {labels: {e: f}}}"),
	{"the status while it is deleted", func(ctx context.Context, o *stuckObject) error {
		return o.patch(ctx, types.MergePatchType, "{status: "+o.status+"}", "status")
	}},
	merging("the removal of its finalizer", "{metadata: {finalizers: null}}"),
	{"its end", func(ctx context.Context, o *stuckObject) error {
		if _, err := o.at.Get(ctx, o.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %w", err)
		}
		return nil
	}},
}

// ownHook tells of the webhooks of the components of TestE2ENothingIsStuck. Other tests have theirs.
func ownHook(name string) bool {
	return strings.HasPrefix(name, "stays.") || strings.HasPrefix(name, "stays-alone.")
}

func namesOf[H admissionregistrationv1.ValidatingWebhook | admissionregistrationv1.MutatingWebhook](hooks []H) []string {
	var out []string
	for _, h := range hooks {
		switch h := any(h).(type) {
		case admissionregistrationv1.ValidatingWebhook:
			out = append(out, h.Name)
		case admissionregistrationv1.MutatingWebhook:
			out = append(out, h.Name)
		}
	}
	return out
}

// TestE2ENothingIsStuck: in no state of Sluice is a write of metadata, finalizers or status refused, nor a deletion, of objects that use
// what is off as of others. It has the cluster for itself, as it stops everybody's controller.
func TestE2ENothingIsStuck(t *testing.T) { //nolint:paralleltest // see above
	s := installed(t)
	ctx := t.Context()
	hook, err := s.start(context.WithoutCancel(ctx), "feature-webhook")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		hook.Kill()
		ctx := context.WithoutCancel(ctx)
		err := s.kube.CoreV1().ConfigMaps(systemNamespace).Delete(ctx, features.Address, metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	gates := []string{"TasksTimeout", "TaskTimeout", "EnvSecret", "TurboMode", "Preview"}
	c := newScene(t, s, "stays", sceneOptions{gates: gates, component: ", optIn: {namespaceLabel: true}"})
	c.apply(fmt.Sprintf(stuckFeatures, c.name))
	c.features += 5
	alone := newScene(t, s, "stays-alone", sceneOptions{gates: gates})
	if _, err := s.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stays-elsewhere"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.enforced()
	alone.enforced()

	// Objects of both kinds, with all that can be gated and with nothing of it, for each state.
	states := []string{"all-is-well", "bad-definition", "no-webhook", "settings-going", "settings-gone", "no-controller", "no-component"}
	onlyAlone := []string{"well", "no-controller", "no-settings", "no-binding", "no-component"}
	const all = "{tasksTimeout: 1h, script: s, tasks: [{name: a, timeout: 1h}, {name: b}], env: {A: {secret: s}}, modes: [turbo]}"
	open := map[string]string{"enable-api-fields": "alpha", "preview": "true", "old-sets": "true"}
	c.set(open)
	alone.set(map[string]string{"enable-api-fields": "alpha", "preview": "true"})
	c.open(all)
	alone.open(all)
	objects := map[string][]stuckObject{}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	daemons := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
	store := func(c *scene, namespace, state, name, version, spec string) {
		t.Helper()
		u := c.pipeline(name+"-"+state, spec)
		u.SetAPIVersion(c.group + "/" + version)
		of := c.dynamic.Resource(schema.GroupVersionResource{Group: c.group, Version: version, Resource: "pipelines"}).Namespace(namespace)
		eventually(t, "an object", func(ctx context.Context) error {
			_, err := of.Create(ctx, u, metav1.CreateOptions{})
			return err
		})
		objects[c.name+state] = append(objects[c.name+state], stuckObject{u.GetName(), of, "{phase: done}"})
	}
	workload := func(gvr schema.GroupVersionResource, kind, namespace, state, name, spec string) {
		t.Helper()
		u := &unstructured.Unstructured{}
		text := "{apiVersion: apps/v1, kind: " + kind + ", metadata: {name: " + name + "-" + state + "}, spec: {selector: {matchLabels: {a: b}}, " + spec + "}}"
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		of := c.dynamic.Resource(gvr).Namespace(namespace)
		eventually(t, "a workload", func(ctx context.Context) error {
			_, err := of.Create(ctx, u, metav1.CreateOptions{})
			return err
		})
		objects[c.name+state] = append(objects[c.name+state], stuckObject{u.GetName(), of, "{observedGeneration: 1}"})
	}
	for _, state := range states {
		for _, namespace := range []string{c.name, "stays-elsewhere"} {
			if namespace == c.name && slices.Contains(states[slices.Index(states, "settings-going"):], state) {
				continue // what is in it goes with it
			}
			store(c, namespace, state, "uses", "v1", all)
			store(c, namespace, state, "plain", "v1", "{description: d}")
			store(c, namespace, state, "early", "v1alpha1", all)
			workload(deployments, "Deployment", namespace, state, "uses", "template: {metadata: {labels: {a: b}}, spec: {nodeName: fast, hostname: h, containers: [{name: c, image: i, imagePullPolicy: Never}]}}")
			workload(deployments, "Deployment", namespace, state, "plain", "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}")
			workload(daemons, "DaemonSet", namespace, state, "whole", "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}")
		}
	}
	for _, state := range onlyAlone {
		store(alone, alone.name, state, "uses", "v1", all)
		store(alone, alone.name, state, "plain", "v1", "{description: d}")
		store(alone, alone.name, state, "early", "v1alpha1", all)
	}
	tried, stored := 0, 0
	for _, list := range objects {
		stored += len(list)
	}
	free := func(c *scene, state string) {
		t.Helper()
		list := objects[c.name+state]
		if list == nil {
			t.Fatalf("there are no objects for %s", state)
		}
		for i := range list {
			for _, w := range freeWrites {
				tried++
				if err := w.do(ctx, &list[i]); err != nil {
					t.Errorf("%s, %s: %s of %s: %v", c.name, state, w.name, list[i].name, err)
				}
			}
		}
		delete(objects, c.name+state)
	}

	c.set(map[string]string{"env-secret": "true"})
	alone.set(nil)
	c.inForce(timeout)
	alone.inForce(timeout)
	free(c, "all-is-well")
	free(alone, "well")

	feature := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("features"))
	definition := func(field string) {
		t.Helper()
		_, err := feature.Patch(ctx, c.name+".paused", types.MergePatchType, []byte(`{"spec":{"parts":[{"group":"apps","resource":"`+field+`","field":"spec.template.spec.nodeName"}]}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	definition("deploymints")
	c.accepted(metav1.ConditionFalse, "", "Paused")
	free(c, "bad-definition")
	definition("deployments")
	c.enforced()

	hook.Kill()
	free(c, "no-webhook")

	if err := s.kube.CoreV1().Namespaces().Delete(ctx, c.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	settings := s.kube.CoreV1().ConfigMaps(c.name)
	eventually(t, "the namespace to let go of its settings", func(ctx context.Context) error {
		return settings.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	free(c, "settings-going")
	c.told(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonSettingsMissing, "stays/flags is not there", "the last good settings are part of the policies")
	c.events(v1alpha1.ReasonSettingsMissing)
	elsewhere := func(spec string) error {
		_, err := c.dynamic.Resource(schema.GroupVersionResource{Group: c.group, Version: "v1", Resource: "pipelines"}).Namespace("stays-elsewhere").
			Create(ctx, c.pipeline("try", spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	eventually(t, "what is off to be refused by the last good settings", func(context.Context) error { return refused(elsewhere(timeout), "TasksTimeout") })
	if err := errors.Join(elsewhere("{env: {A: {secret: s}}}"), elsewhere("{description: d}")); err != nil {
		t.Errorf("what the last good settings allow: %v", err)
	}
	free(c, "settings-gone")

	var controller *nodeless.Process
	for _, p := range processes {
		if strings.HasPrefix(p.Name, "features-") && !p.Over() {
			controller = p
		}
	}
	controller.Kill()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clustertest.Patience)
		defer cancel()
		if _, err := s.start(ctx, "features"); err != nil {
			t.Error(err)
		}
		// It takes away what it made for components that are gone; others are to find the cluster as it was.
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			h, err := s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, features.Configuration, metav1.GetOptions{})
			m, errM := s.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, features.Configuration, metav1.GetOptions{})
			if err == nil && errM == nil && !slices.ContainsFunc(slices.Concat(namesOf(h.Webhooks), namesOf(m.Webhooks)), ownHook) {
				return
			}
		}
		t.Error("the webhooks of components that are gone are still there")
	})
	free(c, "no-controller")
	free(alone, "no-controller")
	bindings := s.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	if err := bindings.Delete(ctx, "features.stays-alone.settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the settings to be deleted", func(ctx context.Context) error {
		return s.kube.CoreV1().ConfigMaps(alone.name).Delete(ctx, "flags", metav1.DeleteOptions{})
	})
	free(alone, "no-settings")
	if err := bindings.Delete(ctx, "features.stays-alone.pipelines.stays-alone.e2e.dev.reject.v1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	free(alone, "no-binding")
	for _, c := range []*scene{c, alone} {
		for resource, options := range map[string]metav1.ListOptions{"features": {}, "components": {FieldSelector: "metadata.name=" + c.name}} {
			err := s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(resource)).DeleteCollection(ctx, metav1.DeleteOptions{}, options)
			if err != nil {
				t.Fatal(err)
			}
		}
		free(c, "no-component")
	}
	// The product of states and writes.
	if len(objects) > 0 || tried != stored*len(freeWrites) || len(states)+len(onlyAlone) < 12 {
		t.Errorf("%d writes of %d objects in %d states were tried; these objects were not: %v", tried, stored, len(states)+len(onlyAlone), objects)
	}
	// The namespace that was deleted goes too: nothing in it is kept by us.
	eventually(t, "the namespace to go", func(ctx context.Context) error {
		_, err := s.kube.CoreV1().Namespaces().Get(ctx, c.name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}
