//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
)

// report writes what a process says of a gate.
func (c *scene) report(process, instance, gate string, on bool) {
	c.t.Helper()
	c.apply(fmt.Sprintf(`apiVersion: sluice.dev/v1alpha1
kind: FeatureReport
metadata: {name: %[2]s-%[3]s, namespace: %[1]s}
spec: {component: %[1]s, process: %[2]s, instance: %[3]s, renewTime: "%[4]s", leaseDurationSeconds: 3600, features: [{gate: %[5]s, enabled: %[6]t}]}
`, c.name, process, instance, time.Now().UTC().Format(time.RFC3339), gate, on))
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
			if text, err := p.get(ctx, "/metrics"); err == nil && strings.Contains(text, `sluice_features_skew{component="skew"} 1`) {
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
