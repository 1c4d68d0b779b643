//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
)

// uses are objects that each use one feature, and the place that is told.
var uses = []struct{ gate, spec, place string }{
	{"TasksTimeout", "{tasksTimeout: 1h}", "spec.tasksTimeout"},
	{"RetryOnError", "{onError: retry}", "spec.onError"},
	{"TaskTimeout", "{tasks: [{name: a}, {name: b, timeout: 1m}]}", "spec.tasks[1].timeout"},
	{"EnvSecret", "{env: {A: {value: x}, B: {secret: s}}}", "spec.env.B.secret"},
	{"TurboMode", "{modes: [calm, turbo]}", "spec.modes[1]"},
	{"Extra", "{extra: {k: v}}", "spec.extra.k"},
}

// TestE2EReject is scenarios 1 and 2: what is closed is refused, and all of it is told at once.
func TestE2EReject(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "reject", sceneOptions{})
	c.enforced()
	for _, u := range uses {
		c.inForce(u.spec, u.place+": ", `alpha; needs feature "`+u.gate+`" of component "reject": set `, ", or enable-api-fields: alpha without ", "in ConfigMap reject/flags")
	}
	_, err := c.try("{tasksTimeout: 1h, onError: retry, tasks: [{name: a, timeout: 1m}]}")
	if err := refused(err, "spec.tasksTimeout", "spec.onError", "spec.tasks[0].timeout"); err != nil {
		t.Error(err)
	}
	eventually(t, "the version to be refused", func(context.Context) error {
		u := c.pipeline("x", "{description: d}")
		u.SetAPIVersion(c.group + "/v1alpha1")
		_, err := c.of("v1alpha1", c.quiet).Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return refused(err, c.group+"/v1alpha1 is alpha", `needs feature "Preview"`)
	})
	c.open("{description: d, tasks: [{name: a}], env: {A: {value: x}}, onError: stop}")
	st, generation := c.featureStatus("tasks-timeout")
	if diff := cmp.Diff(v1alpha1.FeatureStatus{
		ObservedGeneration: generation, Stage: v1alpha1.Alpha, Default: new(false), Enabled: new(false), Why: "enable-api-fields is stable",
		EnforcedBy: []v1alpha1.Enforcer{{Kind: "ValidatingAdmissionPolicy", Name: "features.reject.pipelines.reject.e2e.dev.reject.v1", Group: "reject.e2e.dev", Resource: "pipelines"}},
		Conditions: st.Conditions,
	}, st); diff != "" {
		t.Error(diff)
	}
	for _, err := range []error{is(st.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted), is(st.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonEnforcedByPolicy)} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestE2EDrop is scenario 3: what is closed is not there, and a warning tells it.
func TestE2EDrop(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "drop", sceneOptions{whenDisabled: "Drop"})
	c.enforced()
	for i, u := range uses {
		without := []string{"{}", "{}", "{tasks: [{name: a}, {name: b}]}", "{env: {A: {value: x}, B: {}}}", "{modes: [calm]}", "{extra: {}}"}[i]
		eventually(t, u.spec+" to be dropped", func(context.Context) error {
			c.warnings.Take()
			got, err := c.try(u.spec)
			if err != nil {
				return err
			}
			if diff := cmp.Diff(c.pipeline("x", without).Object["spec"], got.Object["spec"]); diff != "" {
				return errors.New(diff)
			}
			if w := c.warnings.Take(); !strings.Contains(w, "dropped "+u.place) || !strings.Contains(w, u.gate) {
				return fmt.Errorf("the warning is %q", w)
			}
			return c.audited("pipelines", "try", byPolicy, `"policy":"features.drop.pipelines.drop.e2e.dev.dropped.v1"`, "dropped "+u.place, u.gate)
		})
	}
	c.open("{description: d, tasks: [{name: a}], env: {A: {value: x}}, onError: stop}")
}

// TestE2EWarn: what is closed passes, with a warning.
func TestE2EWarn(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "warn", sceneOptions{whenDisabled: "Warn"})
	c.enforced()
	for _, u := range uses {
		eventually(t, u.spec+" to be warned of", func(context.Context) error {
			c.warnings.Take()
			got, err := c.try(u.spec)
			if err != nil {
				return err
			}
			if diff := cmp.Diff(c.pipeline("x", u.spec).Object["spec"], got.Object["spec"]); diff != "" {
				return errors.New(diff)
			}
			if w := c.warnings.Take(); !strings.Contains(w, u.place) || !strings.Contains(w, u.gate) {
				return fmt.Errorf("the warning is %q", w)
			}
			return c.audited("pipelines", "try", byPolicy, `"policy":"features.warn.pipelines.warn.e2e.dev.warn.v1"`, u.place+": ", u.gate)
		})
	}
	eventually(t, "the version to be warned of", func(context.Context) error {
		c.warnings.Take()
		u := c.pipeline("x", "{description: d}")
		u.SetAPIVersion(c.group + "/v1alpha1")
		if _, err := c.of("v1alpha1", c.quiet).Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return err
		}
		if w := c.warnings.Take(); !strings.Contains(w, c.group+"/v1alpha1") || !strings.Contains(w, "Preview") {
			return fmt.Errorf("the warning is %q", w)
		}
		return nil
	})
	c.warnings.Take()
	c.must("quiet", "{description: d}")
	if w := c.warnings.Take(); w != "" {
		t.Errorf("an object that uses nothing is warned of: %s", w)
	}
	eventually(t, "an object that uses nothing to be in the audit log without a word of it", func(context.Context) error {
		return c.audited("pipelines", "quiet", byPolicy)
	})
}
