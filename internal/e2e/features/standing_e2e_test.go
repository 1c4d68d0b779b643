//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
)

// grant lets the controller write policies, or only read them.
func (s *system) grant(ctx context.Context, may bool) error {
	roles := s.kube.RbacV1().ClusterRoles()
	role, err := roles.Get(ctx, "sluice-features", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range role.Rules {
		if !slices.Contains(role.Rules[i].Resources, "validatingadmissionpolicies") {
			continue
		}
		role.Rules[i].Verbs = []string{"get", "list", "watch"}
		if may {
			role.Rules[i].Verbs = append(role.Rules[i].Verbs, "create", "update", "patch", "delete")
		}
	}
	_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
	return err
}

// mayWrite is grant, and waits until it holds.
func (c *scene) mayWrite(may bool) {
	c.t.Helper()
	eventually(c.t, "the role to be changed", func(ctx context.Context) error { return c.grant(ctx, may) })
	eventually(c.t, "the API server to know", func(ctx context.Context) error {
		answer, err := c.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + systemNamespace + ":sluice-features",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies", Verb: "delete"},
		}}, metav1.CreateOptions{})
		if err == nil && answer.Status.Allowed != may {
			err = fmt.Errorf("it may delete policies: %t", answer.Status.Allowed)
		}
		return err
	})
}

// told waits until a condition of the component has a status and a reason, and its message these words.
func (c *scene) told(conditionType string, status metav1.ConditionStatus, reason string, words ...string) {
	c.t.Helper()
	eventually(c.t, conditionType+" "+reason, func(context.Context) error {
		list := c.status().Conditions
		if err := is(list, conditionType, status, reason); err != nil {
			return err
		}
		m := meta.FindStatusCondition(list, conditionType).Message
		for _, w := range words {
			if !strings.Contains(m, w) {
				return fmt.Errorf("%q is not told: %s", w, m)
			}
		}
		return nil
	})
}

// TestE2EWhatCannotBeWrittenIsTold: while the controller may not write policies, the API server goes on to enforce the settings of
// before, and status says so. It has the cluster for itself, as the controller's rights are everybody's.
func TestE2EWhatCannotBeWrittenIsTold(t *testing.T) { //nolint:paralleltest // see above
	c := newScene(t, installed(t), "stuck", sceneOptions{mode: "Baked", gates: []string{"TasksTimeout"}})
	live := newScene(t, c.system, "stuck-live", sceneOptions{gates: []string{"TasksTimeout"}})
	c.enforced()
	live.enforced()
	c.inForce(timeout)
	live.inForce(timeout)
	c.mayWrite(false)
	t.Cleanup(func() {
		if err := c.grant(context.WithoutCancel(t.Context()), true); err != nil {
			t.Error(err)
		}
	})
	c.set(map[string]string{"tasks-timeout": "true"})
	c.report("webhook", "w-0", "TasksTimeout", true)
	const policyName = "features.stuck.pipelines.stuck.e2e.dev.reject.v1"
	c.told(v1alpha1.ConditionSkew, metav1.ConditionTrue, v1alpha1.ReasonEnforcementDiffers, "TasksTimeout: the settings say on", "on in webhook/w-0", "enforced as off by ValidatingAdmissionPolicy "+policyName)
	c.told(v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonNotEnforced, "ValidatingAdmissionPolicy "+policyName, "cannot delete", "1 of 1 features: TasksTimeout")
	eventually(t, "the feature to tell it", func(context.Context) error {
		st, _ := c.featureStatus("tasks-timeout")
		if len(st.EnforcedBy) != 1 || st.EnforcedBy[0].Name != policyName {
			return fmt.Errorf("enforced by %v", st.EnforcedBy)
		}
		return errors.Join(is(st.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonNotEnforced),
			is(st.Conditions, v1alpha1.ConditionSkew, metav1.ConditionTrue, v1alpha1.ReasonEnforcementDiffers))
	})
	c.inForce(timeout)
	c.events(v1alpha1.ReasonEnforcementDiffers)
	eventually(t, "the metric", func(ctx context.Context) error {
		for _, p := range processes {
			if text, err := p.Get(ctx, "/metrics"); err == nil && strings.Contains(text, `sluice_features_skew{component="stuck"} 1`) {
				return nil
			}
		}
		return errors.New("nobody tells it")
	})

	// A policy that reads the settings goes on by the definition of before: it differs where it makes something else of them.
	graduated := strings.Replace(live.feature("TasksTimeout", featureParts["TasksTimeout"], sceneOptions{}), "[{stage: Alpha, release: v1.0.0}]",
		"[{stage: Alpha, release: v1.0.0}, {stage: Stable, release: v1.5.0, lockToDefault: true}]", 1)
	live.apply(graduated)
	const livePolicy = "features.stuck-live.pipelines.stuck-live.e2e.dev.reject.v1"
	live.told(v1alpha1.ConditionSkew, metav1.ConditionTrue, v1alpha1.ReasonEnforcementDiffers, "TasksTimeout: the settings say on", "enforced as off by ValidatingAdmissionPolicy "+livePolicy)
	live.told(v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonNotEnforced, "cannot delete")
	live.inForce(timeout)
	live.events(v1alpha1.ReasonEnforcementDiffers)
	live.set(map[string]string{"tasks-timeout": "true"})
	live.told(v1alpha1.ConditionSkew, metav1.ConditionUnknown, v1alpha1.ReasonNoReports)
	live.open(timeout)
	live.set(nil)
	live.told(v1alpha1.ConditionSkew, metav1.ConditionTrue, v1alpha1.ReasonEnforcementDiffers)

	// It clears by itself.
	c.mayWrite(true)
	live.told(v1alpha1.ConditionSkew, metav1.ConditionUnknown, v1alpha1.ReasonNoReports)
	live.enforced()
	live.open(timeout)
	c.told(v1alpha1.ConditionSkew, metav1.ConditionFalse, v1alpha1.ReasonProcessesAgree, "1 process agrees")
	c.enforced()
	eventually(t, "the feature to be open for all", func(context.Context) error {
		st, _ := c.featureStatus("tasks-timeout")
		if st.EnforcedBy != nil {
			return fmt.Errorf("enforced by %v", st.EnforcedBy)
		}
		return is(st.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonOpenForAll)
	})
	c.open(timeout)
}

// TestE2ESettingsThatAreBadByNow: settings that are gone are put back without what no feature is there for any more.
func TestE2ESettingsThatAreBadByNow(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "bygone", sceneOptions{gates: []string{"TasksTimeout", "EnvSecret"}})
	c.enforced()
	c.set(map[string]string{"tasks-timeout": "true", "env-secret": "true"})
	c.enabled("tasks-timeout", true)
	c.enabled("env-secret", true)
	if err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("features")).Delete(t.Context(), "bygone.env-secret", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.features--
	settings := c.kube.CoreV1().ConfigMaps(c.name)
	eventually(t, "the guard to know", func(ctx context.Context) error {
		_, err := settings.Create(ctx, c.settings(map[string]string{"env-secret": "true"}), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return refused(err, "there is no key env-secret")
	})
	bindings := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	eventually(t, "the settings to be deleted", func(ctx context.Context) error {
		if err := bindings.Delete(ctx, "features.bygone.settings", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return settings.Delete(ctx, "flags", metav1.DeleteOptions{})
	})
	eventually(t, "the settings to be put back", func(ctx context.Context) error {
		cm, err := settings.Get(ctx, "flags", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !maps.Equal(cm.Data, map[string]string{"tasks-timeout": "true"}) {
			return fmt.Errorf("they are %v", cm.Data)
		}
		return nil
	})
	c.told(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "left out when they were put back: env-secret: there is no such key")
	c.enforced()
	c.open(timeout)
	c.events(v1alpha1.EventSettingsPutBack)
}

// TestE2EDefaultsBeforeTheFirstSettings: a first install without settings, and without a Role to make them, has the defaults in force; so
// has a component that is deleted and made again without them.
func TestE2EDefaultsBeforeTheFirstSettings(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "first", sceneOptions{gates: []string{"TasksTimeout"}, noSettings: true})
	missing := func() {
		t.Helper()
		c.told(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonSettingsMissing, "whether there is a ConfigMap first/flags is not known", "the defaults are in force")
		c.told(v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonEnforcedByPolicy)
		c.inForce(timeout)
		c.open("{description: d}")
	}
	missing()
	components := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("components"))
	if err := components.Delete(t.Context(), c.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policies to go with the component", func(context.Context) error {
		if left := c.made(); len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
	c.apply(fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Component\nmetadata: {name: %[1]s}\nspec: {release: v1.5.0, mode: Live, configMap: {namespace: %[1]s, name: flags}}\n", c.name))
	missing()

	c.follow(c.status().Conditions, v1alpha1.ConditionAccepted)
	c.told(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonSettingsMissing, "the ConfigMap first/flags is not there", "the defaults are in force")
	c.follow(c.status().Conditions, v1alpha1.ConditionAccepted)
	c.enforced()
	c.inForce(timeout)
	if _, err := c.kube.CoreV1().ConfigMaps(c.name).Get(t.Context(), "flags", metav1.GetOptions{}); err != nil {
		t.Errorf("the settings: %v", err)
	}
	if _, err := c.try("{description: d}"); err != nil && !apierrors.IsServiceUnavailable(err) {
		t.Error(err)
	}
}
