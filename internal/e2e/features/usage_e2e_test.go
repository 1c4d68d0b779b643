//go:build e2e

package features

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
)

// TestE2EUsage: the controller counts by itself how many stored objects use a feature, says what it needs where it may not, and
// writes nothing while nothing changes.
func TestE2EUsage(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "usage", sceneOptions{gates: []string{"TasksTimeout", "TaskTimeout"}})
	c.enforced()
	counted := func(kebab string, status metav1.ConditionStatus, reason string, want int64, inUse int32) {
		t.Helper()
		eventually(t, kebab+" to be counted", func(context.Context) error {
			st, _ := c.featureStatus(kebab)
			if err := is(st.Conditions, v1alpha1.ConditionCounted, status, reason); err != nil {
				return err
			}
			switch {
			case want < 0 && (st.InUse != nil || st.InUseTime != nil):
				return fmt.Errorf("it is said that %d use it", *st.InUse)
			case want >= 0 && (st.InUse == nil || *st.InUse != want || st.InUseTime == nil):
				return fmt.Errorf("%v objects at %v", st.InUse, st.InUseTime)
			}
			if n := c.status().InUse; n != inUse {
				return fmt.Errorf("the component says that %d features are in use", n)
			}
			return nil
		})
	}
	counted("tasks-timeout", metav1.ConditionUnknown, v1alpha1.ReasonCountForbidden, -1, 0)
	st, _ := c.featureStatus("tasks-timeout")

	c.set(map[string]string{"tasks-timeout": "true", "task-timeout": "true"})
	c.open("{tasksTimeout: 1h, tasks: [{name: a, timeout: 1m}]}")
	for i := range 120 { // more than a page
		spec := "{description: d}"
		if i%4 == 0 {
			spec = "{tasksTimeout: 1h}"
		}
		c.must(fmt.Sprintf("p-%d", i), spec)
	}
	c.follow(st.Conditions, v1alpha1.ConditionCounted)
	counted("tasks-timeout", metav1.ConditionTrue, v1alpha1.ReasonCounted, 30, 1)
	counted("task-timeout", metav1.ConditionTrue, v1alpha1.ReasonCounted, 0, 1)

	c.enforced()
	// It is counted again and again, and written when it is another number.
	features := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("features"))
	before, err := features.Get(t.Context(), "usage.tasks-timeout", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.must("late", "{tasks: [{name: a, timeout: 1m}]}")
	counted("task-timeout", metav1.ConditionTrue, v1alpha1.ReasonCounted, 1, 2)
	after, err := features.Get(t.Context(), "usage.tasks-timeout", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if before.GetResourceVersion() != after.GetResourceVersion() {
		t.Errorf("a count that has not changed was written: %v, then %v", before.Object["status"], after.Object["status"])
	}
	if err := c.things.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	counted("tasks-timeout", metav1.ConditionTrue, v1alpha1.ReasonCounted, 0, 0)
}
