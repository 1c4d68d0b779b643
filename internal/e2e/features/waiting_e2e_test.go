//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/tools/clustertest"
)

// waitingFeatures gate parts of pipelines, which is there, and of rails, which is not: parts that policies and the webhook refuse, that are
// dropped, whole versions, a kind of Kubernetes, and what the CRD of pipelines itself lacks.
const waitingFeatures = `
- {gate: Both, parts: [{group: G, resource: pipelines, field: spec.script}, {group: G, resource: rails, field: spec.script}]}
- {gate: Dropped, whenDisabled: Drop, parts: [{group: G, resource: rails, field: spec.extra}, {group: G, resource: pipelines, field: spec.extra}]}
- {gate: Whole, parts: [{group: G, resource: pipelines, versions: [v1alpha1], wholeVersion: true}, {group: G, resource: rails, versions: [v1alpha1], wholeVersion: true}]}
- {gate: Hooked, ratchet: Unchanged, parts: [{group: G, resource: rails, field: spec.free}, {group: G, resource: pipelines, field: spec.description}]}
- {gate: Core, parts: [{resource: podtemplates, field: template.spec.hostNetwork}, {group: G, resource: rails, field: spec.description}]}
- {gate: Older, parts: [{group: G, resource: pipelines, field: spec.onError}, {group: G, resource: pipelines, versions: [v3], field: spec.x}, {group: G, resource: pipelines, field: spec.nosuch}]}
`

// TestE2EPartsWait: while a CRD is missing, the other parts of a feature are enforced, and conditions say what waits. When the CRD arrives,
// its parts are enforced without a restart. When it goes and comes back, nothing is open in between, even if the controller restarts.
func TestE2EPartsWait(t *testing.T) {
	t.Parallel()
	s, err := install(t.Context(), clustertest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	controller, err := s.start(context.WithoutCancel(t.Context()), "features")
	if err != nil {
		t.Fatal(err)
	}
	hook, err := s.start(context.WithoutCancel(t.Context()), "feature-webhook")
	if err != nil {
		t.Fatal(err)
	}
	defer hook.Kill()
	defer func() { controller.Kill() }()
	c := newScene(t, s, "waits", sceneOptions{gates: []string{"TasksTimeout"}})
	for line := range strings.Lines(strings.TrimSpace(waitingFeatures)) {
		gate, _, _ := strings.Cut(strings.TrimPrefix(line, "- {gate: "), ",")
		spec := strings.ReplaceAll(strings.TrimSpace(strings.TrimPrefix(line, "- {")), "group: G", "group: "+c.group)
		c.apply(fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Feature\nmetadata: {name: waits.%s}\nspec: {component: waits, stages: [{stage: Alpha, release: v1.0.0}], %s\n", strings.ToLower(gate), spec))
		c.features++
	}
	gates := []string{"both", "dropped", "whole", "hooked", "core"}

	c.enforced()
	for _, gate := range append(gates, "older") {
		c.waitsFor(gate, "rails."+c.group, `no version "v3"`, `no field "nosuch"`)
	}
	c.inForce("{script: x}", `"Both"`)
	c.inForce("{onError: stop}", `"Older"`)
	c.inForce("{description: d}", `"Hooked"`)
	eventually(t, "extra to be dropped", func(context.Context) error {
		u, err := c.try("{extra: {a: b}}")
		if err != nil {
			return err
		}
		if _, there, _ := unstructured.NestedMap(u.Object, "spec", "extra"); there {
			return errors.New("it is there")
		}
		return nil
	})
	if _, err := s.kube.CoreV1().PodTemplates(c.name).Create(t.Context(), podTemplate(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); refused(err, `"Core"`) != nil {
		t.Error(refused(err, `"Core"`))
	}
	alpha := c.pipeline("try", "{}")
	alpha.SetAPIVersion(c.group + "/v1alpha1")
	if _, err := c.of("v1alpha1", c.quiet).Create(t.Context(), alpha, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); refused(err, `"Whole"`) != nil {
		t.Error(refused(err, `"Whole"`))
	}

	rails := strings.NewReplacer("pipelines", "rails", "Pipeline", "Rail", "pipeline", "rail", "script: {type: string}", "script: {type: string}\n              free: {type: object, x-kubernetes-preserve-unknown-fields: true}").
		Replace(fmt.Sprintf(crdText, c.group))
	c.apply(rails)
	c.railsAreClosed(false)
	for _, gate := range gates {
		eventually(t, gate+" not to wait", func(context.Context) error {
			st, _ := c.featureStatus(gate)
			return errors.Join(is(st.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted), is(st.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionTrue, ""))
		})
	}

	for _, restart := range []bool{false, true} {
		made := c.madeFor("rails")
		c.deleteCRD("rails")
		for _, gate := range gates {
			c.waitsFor(gate, "rails."+c.group)
		}
		if restart {
			stop(t, controller)
			if controller, err = s.start(context.WithoutCancel(t.Context()), "features"); err != nil {
				t.Fatal(err)
			}
			c.touch("both") // the new process has looked at everything by the time that it says so
		}
		if now := c.madeFor("rails"); len(now) != len(made) {
			t.Errorf("the policies of rails were %v, and are %v", made, now)
		}
		c.apply(rails)
		c.railsAreClosed(true)
	}
	c.set(map[string]string{"both": "true"})
	c.open("{script: x}")
	eventually(t, "a rail to pass", func(context.Context) error {
		_, err := c.rail("v1", "{script: x}")
		return err
	})
}

func podTemplate() *corev1.PodTemplate {
	return &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "try"}, Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "a", Image: "b"}}},
	}}
}

// waitsFor waits until a feature is enforced and its conditions have one of the words about what waits.
func (c *scene) waitsFor(kebab string, words ...string) {
	c.t.Helper()
	eventually(c.t, kebab+" to say what waits", func(context.Context) error {
		st, _ := c.featureStatus(kebab)
		err := errors.Join(is(st.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonPartsWaiting), is(st.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionTrue, ""))
		for _, condition := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionEnforced} {
			found := false
			x := meta.FindStatusCondition(st.Conditions, condition)
			for _, w := range words {
				found = found || x != nil && strings.Contains(x.Message, w)
			}
			if !found {
				err = errors.Join(err, fmt.Errorf("%s does not say what waits: %v", condition, x))
			}
		}
		return err
	})
	if st := c.status(); !strings.Contains(meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionAccepted).Message, "features wait for a part of an API that the cluster does not have") {
		c.t.Errorf("the component does not say that features wait: %v", st.Conditions)
	}
}

// rail creates a rail with a spec, without keeping it.
func (c *scene) rail(version, spec string) (*unstructured.Unstructured, error) {
	u := c.pipeline("try", spec)
	u.SetAPIVersion(c.group + "/" + version)
	u.SetKind("Rail")
	return c.dynamic.Resource(schema.GroupVersionResource{Group: c.group, Version: version, Resource: "rails"}).Namespace(c.name).
		Create(c.t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// railsAreClosed waits until each gated part of rails is refused. If always is set, none may pass before.
func (c *scene) railsAreClosed(always bool) {
	c.t.Helper()
	for _, x := range []struct{ version, spec, gate string }{
		{"v1", "{script: x}", "Both"}, {"v1", "{free: {a: 1}}", "Hooked"}, {"v1", "{description: d}", "Core"}, {"v1alpha1", "{}", "Whole"},
	} {
		eventually(c.t, x.spec+" of a rail to be refused", func(context.Context) error {
			_, err := c.rail(x.version, x.spec)
			if err == nil && always {
				c.t.Errorf("%s of a rail passes although it was closed before", x.spec)
				return nil
			}
			return refused(err, `"`+x.gate+`"`)
		})
	}
	eventually(c.t, "extra of a rail to be dropped", func(context.Context) error {
		u, err := c.rail("v1", "{extra: {a: b}}")
		if err != nil {
			return err
		}
		if _, there, _ := unstructured.NestedMap(u.Object, "spec", "extra"); there {
			if always {
				c.t.Error("extra of a rail passes although it was closed before")
				return nil
			}
			return errors.New("it is there")
		}
		return nil
	})
}

// madeFor are the names of the policies and bindings of a resource.
func (c *scene) madeFor(resource string) (out []string) {
	c.t.Helper()
	for name := range c.made() {
		if strings.Contains(name, "."+resource+".") {
			out = append(out, name)
		}
	}
	return out
}

func (c *scene) deleteCRD(plural string) {
	c.t.Helper()
	crds := c.dynamic.Resource(crdResource)
	if err := crds.Delete(c.t.Context(), plural+"."+c.group, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "the CRD to be gone", func(ctx context.Context) error {
		if _, err := crds.Get(ctx, plural+"."+c.group, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// touch changes a feature, and waits until its status is about the change.
func (c *scene) touch(kebab string) {
	c.t.Helper()
	u, err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("features")).
		Patch(c.t.Context(), c.name+"."+kebab, types.MergePatchType, []byte(`{"spec":{"description":"touched"}}`), metav1.PatchOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "the change to be seen", func(context.Context) error {
		if st, _ := c.featureStatus(kebab); st.ObservedGeneration != u.GetGeneration() {
			return fmt.Errorf("%d is seen, not %d", st.ObservedGeneration, u.GetGeneration())
		}
		return nil
	})
}
