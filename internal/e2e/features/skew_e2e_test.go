//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/api/v1alpha1"
	reporting "sluice.dev/feature/process"
)

// report writes what a process says of a gate.
func (c *scene) report(process, instance, gate string, on bool) {
	c.t.Helper()
	c.reportOf(c.name, c.name, process, instance, gate, on, 3600, "")
}

// reportOf writes what a process of a component says in a namespace, for a number of seconds; owners are in flow style.
func (c *scene) reportOf(component, namespace, process, instance, gate string, on bool, lease int, owners string) {
	c.t.Helper()
	c.apply(fmt.Sprintf(`apiVersion: sluice.dev/v1alpha1
kind: FeatureReport
metadata: {name: %[2]s-%[3]s, namespace: %[1]s, ownerReferences: [%[9]s]}
spec: {component: %[7]s, process: %[2]s, instance: %[3]s, renewTime: "%[4]s", leaseDurationSeconds: %[8]d, features: [{gate: %[5]s, enabled: %[6]t}]}
`, namespace, process, instance, time.Now().UTC().Format(time.RFC3339), gate, on, component, lease, owners))
}

// TestE2ESkew is scenarios 9 and 10: processes that disagree are told by name, a feature that needs all of them is closed until
// they agree, and the condition clears by itself.
func TestE2ESkew(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "skew", sceneOptions{gates: []string{"TasksTimeout"}, more: ", requiredProcesses: [controller, webhook]"})
	c.enforced()
	c.set(map[string]string{"tasks-timeout": "true"})
	c.inForce(timeout)
	c.report("controller", "c-0", "TasksTimeout", false)
	c.report("webhook", "w-0", "TasksTimeout", true)
	skewed := func(status metav1.ConditionStatus, words ...string) {
		t.Helper()
		eventually(t, "Skew "+string(status), func(context.Context) error {
			list := c.status().Conditions
			if err := is(list, v1alpha1.ConditionSkew, status, ""); err != nil {
				return err
			}
			m := meta.FindStatusCondition(list, v1alpha1.ConditionSkew).Message
			for _, w := range words {
				if !strings.Contains(m, w) {
					return fmt.Errorf("%q is not told: %s", w, m)
				}
			}
			st, _ := c.featureStatus("tasks-timeout")
			return is(st.Conditions, v1alpha1.ConditionSkew, status, "")
		})
	}
	skewed(metav1.ConditionTrue, "TasksTimeout", "controller/c-0", "webhook/w-0")
	c.inForce(timeout, "controller does not report it as on")
	c.events(v1alpha1.ReasonProcessesDisagree)
	eventually(t, "the metric", func(ctx context.Context) error {
		for _, p := range processes {
			if text, err := p.Get(ctx, "/metrics"); err == nil && strings.Contains(text, `sluice_features_skew{component="skew"} 1`) {
				return nil
			}
		}
		return errors.New("nobody tells it")
	})
	c.report("controller", "c-0", "TasksTimeout", true)
	skewed(metav1.ConditionFalse)
	c.open(timeout)
	c.enabled("tasks-timeout", true)
}

// TestE2ESkewClears: a process that was killed is forgotten when its report expires, and at once when its pod is gone.
func TestE2ESkewClears(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "skewclears", sceneOptions{gates: []string{"TasksTimeout"}})
	c.enforced()
	c.report("controller", "c-0", "TasksTimeout", false)
	skewed := func(status metav1.ConditionStatus, word string) {
		t.Helper()
		eventually(t, "Skew "+string(status), func(context.Context) error {
			list := c.status().Conditions
			if err := is(list, v1alpha1.ConditionSkew, status, ""); err != nil {
				return err
			}
			if m := meta.FindStatusCondition(list, v1alpha1.ConditionSkew).Message; !strings.Contains(m, word) {
				return fmt.Errorf("%q is not told: %s", word, m)
			}
			return nil
		})
	}
	skewed(metav1.ConditionFalse, "1 process")
	lease := int(3 * reporting.DefaultRenew / time.Second)
	if lease > 10 {
		t.Errorf("a process that was killed counts for %d seconds", lease)
	}
	c.reportOf(c.name, c.name, "webhook", "killed", "TasksTimeout", true, lease, "")
	skewed(metav1.ConditionTrue, "webhook/killed")
	skewed(metav1.ConditionFalse, "1 process")

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}}}
	pod, err := c.kube.CoreV1().Pods(c.name).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.reportOf(c.name, c.name, "webhook", "evicted", "TasksTimeout", true, 3600, fmt.Sprintf("{apiVersion: v1, kind: Pod, name: pod, uid: %s}", pod.UID))
	skewed(metav1.ConditionTrue, "webhook/evicted")
	if err := c.kube.CoreV1().Pods(c.name).Delete(t.Context(), "pod", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	skewed(metav1.ConditionFalse, "1 process")
}

// TestE2EReportsOfOthers: who may write reports in a namespace that a component does not name has no say about it.
func TestE2EReportsOfOthers(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "others", sceneOptions{gates: []string{"TasksTimeout"}})
	component := func(more string) {
		t.Helper()
		c.apply(`apiVersion: sluice.dev/v1alpha1
kind: Component
metadata: {name: flagsonly}
spec: {release: v1.0.0, mode: Baked` + more + `}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: flagsonly.fast}
spec: {component: flagsonly, gate: Fast, stages: [{stage: Alpha, release: v1.0.0}]}
`)
	}
	skewed := func(status metav1.ConditionStatus, words ...string) {
		t.Helper()
		eventually(t, "Skew "+string(status), func(ctx context.Context) error {
			u, err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("components")).Get(ctx, "flagsonly", metav1.GetOptions{})
			if err != nil {
				return err
			}
			var out v1alpha1.Component
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &out); err != nil {
				return err
			}
			if err := is(out.Status.Conditions, v1alpha1.ConditionSkew, status, ""); err != nil {
				return err
			}
			for _, word := range words {
				if m := meta.FindStatusCondition(out.Status.Conditions, v1alpha1.ConditionSkew).Message; !strings.Contains(m, word) {
					return fmt.Errorf("%q is not told: %s", word, m)
				}
			}
			return nil
		})
	}
	component("")
	c.reportOf("flagsonly", c.name, "controller", "own", "Fast", true, 3600, "")
	c.reportOf("flagsonly", "default", "webhook", "foreign", "Fast", false, 3600, "")
	skewed(metav1.ConditionUnknown, "names no namespaces")
	component(", namespaces: [" + c.name + "]")
	skewed(metav1.ConditionFalse, "1 process")
	component(", namespaces: [" + c.name + ", default]")
	skewed(metav1.ConditionTrue, "controller/own", "webhook/foreign")
	component(", namespaces: [" + c.name + "]")
	skewed(metav1.ConditionFalse, "1 process")
}
