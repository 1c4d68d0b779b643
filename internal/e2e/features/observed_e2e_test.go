//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/nodeless"
)

// inARow is how often what is off is tried as soon as Enforced is True.
const inARow = 50

// held fails the test unless check returns nil each time.
func held(t *testing.T, what string, check func() error) {
	t.Helper()
	for i := range inARow {
		if err := check(); err != nil {
			t.Fatalf("%s, try %d of %d: %v", what, i+1, inARow, err)
		}
	}
}

// TestE2EEnforcedIsSeen: as soon as Enforced is True what is off is refused or dropped, and bad settings are refused, each time; after
// the first apply, and after a definition has changed.
func TestE2EEnforcedIsSeen(t *testing.T) {
	t.Parallel()
	s := installed(t)
	for mode, when := range map[string]string{"Live": "Reject", "Baked": "Drop"} {
		t.Run(mode+when, func(t *testing.T) {
			t.Parallel()
			name := map[string]string{"Live": "seen-live", "Baked": "seen-baked"}[mode]
			c := newScene(t, s, name, sceneOptions{mode: mode, whenDisabled: when, gates: []string{"TasksTimeout"}})
			off := func(spec, field string) {
				t.Helper()
				held(t, spec, func() error {
					u, err := c.try(spec)
					if when == "Reject" {
						return refused(err, field)
					}
					if apierrors.IsServiceUnavailable(err) {
						return nil // what mutates does not know the kind yet, and nothing is stored
					}
					if err != nil {
						return err
					}
					if got, _ := u.Object["spec"].(map[string]any); got[field] != nil {
						return fmt.Errorf("it is stored as %v", got)
					}
					return nil
				})
				held(t, "bad settings", func() error {
					return refused(c.trySet(map[string]string{"no-such-key": "true"}), "no-such-key")
				})
			}
			c.enforced()
			off("{tasksTimeout: 1m}", "tasksTimeout")
			// The gate is about another field from now on.
			c.apply(c.feature("TasksTimeout", "{field: spec.script, versions: [v1]}", sceneOptions{whenDisabled: when}))
			eventually(t, "the change to be enforced", func(context.Context) error {
				f, generation := c.featureStatus("tasks-timeout")
				if generation != 2 || f.ObservedGeneration != generation {
					return errors.New("the change has not been seen")
				}
				return is(f.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionTrue, "")
			})
			off("{script: x}", "script")
		})
	}
}

// TestE2ENothingIsEnforcedUnseen: an API server that stores policies and does not run them enforces nothing, and status says so.
func TestE2ENothingIsEnforcedUnseen(t *testing.T) {
	t.Parallel()
	cluster := clustertest.Start(t, clustertest.APIServerArg("disable-admission-plugins=ValidatingAdmissionPolicy"))
	s, err := install(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.start(context.WithoutCancel(t.Context()), "features")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	c := newScene(t, s, "blind", sceneOptions{gates: []string{"TasksTimeout"}})
	const text = "the API server has not been seen to enforce it yet: it does not have the newest policies yet"
	c.told(v1alpha1.ConditionEnforced, metav1.ConditionUnknown, v1alpha1.ReasonNotObserved, text)
	if _, err := c.try("{tasksTimeout: 1m}"); err != nil {
		t.Fatalf("it is enforced all the same: %v", err)
	}
	f, _ := c.featureStatus("tasks-timeout")
	if err := is(f.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionUnknown, v1alpha1.ReasonNotObserved); err != nil {
		t.Error(err)
	}
}

// TestE2EWebhookIsSeen: what the webhook enforces is enforced while the API server reaches it, and it has the newest definitions.
func TestE2EWebhookIsSeen(t *testing.T) {
	t.Parallel()
	s, err := install(t.Context(), clustertest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	start := func(role string) *nodeless.Process {
		p, err := s.start(context.WithoutCancel(t.Context()), role)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p
	}
	start("features")
	hook := start("feature-webhook")
	const paths = "{group: apps, resource: deployments, field: spec.template.spec.%s, pattern: '^[a-z]+(-[a-z]+)*(-[a-z]+)*$'}"
	feature := func(field string) string {
		return fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Feature\nmetadata: {name: reach.paused}\nspec: {component: reach, gate: Paused, stages: [{stage: Alpha, release: v1.0.0}], parts: ["+paths+"]}\n", field)
	}
	c := newScene(t, s, "reach", sceneOptions{gates: []string{"TasksTimeout"}})
	c.apply(feature("nodeName"))
	c.features = 2
	try := func(change func(*appsv1.Deployment)) error {
		_, err := c.kube.AppsV1().Deployments(c.name).Create(t.Context(), deployment("try", change), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	c.enforced()
	held(t, "what is paused", func() error { return refused(try(paused), "spec.template.spec.nodeName") })
	c.apply(feature("serviceAccountName"))
	eventually(t, "the change to be enforced", func(context.Context) error {
		f, generation := c.featureStatus("paused")
		if generation != 2 || f.ObservedGeneration != generation {
			return errors.New("the change has not been seen")
		}
		return is(f.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonEnforcedByWebhook)
	})
	held(t, "what waits", func() error { return refused(try(waits), "spec.template.spec.serviceAccountName") })

	// The webhook goes, and comes back.
	hook.Kill()
	c.told(v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonWebhookUnreachable, "the feature webhook does not answer", "reach.probe.feature.sluice.dev", "connection refused")
	f, _ := c.featureStatus("paused")
	if err := is(f.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonWebhookUnreachable); err != nil {
		t.Error(err)
	}
	policyAlone, _ := c.featureStatus("tasks-timeout")
	if err := is(policyAlone.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonEnforcedByPolicy); err != nil {
		t.Error(err)
	}
	start("feature-webhook")
	c.enforced()
	held(t, "what waits, after the webhook has come back", func() error { return refused(try(waits), "spec.template.spec.serviceAccountName") })
}
