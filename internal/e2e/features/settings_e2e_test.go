//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
)

const timeout = "{tasksTimeout: 1h}"

// accepted waits for the condition Accepted of the component.
func (c *scene) accepted(status metav1.ConditionStatus, reason string, words ...string) {
	c.t.Helper()
	eventually(c.t, "Accepted "+string(status), func(context.Context) error {
		list := c.status().Conditions
		if err := is(list, v1alpha1.ConditionAccepted, status, reason); err != nil {
			return err
		}
		message := meta.FindStatusCondition(list, v1alpha1.ConditionAccepted).Message
		for _, w := range words {
			if !strings.Contains(message, w) {
				return fmt.Errorf("%q is not told: %s", w, message)
			}
		}
		return nil
	})
}

// enabled waits until the status of a feature says whether it is open.
func (c *scene) enabled(kebab string, want bool) {
	c.t.Helper()
	eventually(c.t, kebab+" to be told", func(context.Context) error {
		st, _ := c.featureStatus(kebab)
		if st.Enabled == nil || *st.Enabled != want {
			return fmt.Errorf("enabled is %v", st.Enabled)
		}
		return nil
	})
}

// TestE2ESettingsChange: settings are in force with no process restarted, in both modes.
func TestE2ESettingsChange(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"Live", "Baked"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := newScene(t, installed(t), "change-"+strings.ToLower(mode), sceneOptions{mode: mode, gates: []string{"TasksTimeout", "EnvSecret"}})
			c.enforced()
			for range 2 {
				c.set(map[string]string{"tasks-timeout": "true"})
				c.open(timeout)
				c.enabled("tasks-timeout", true)
				c.inForce("{env: {A: {secret: s}}}")
				c.set(map[string]string{"feature-gates": "EnvSecret=true"})
				c.inForce(timeout)
				c.open("{env: {A: {secret: s}}}")
				c.enabled("env-secret", true)
				c.enabled("tasks-timeout", false)
			}
			if st := c.status(); st.Enabled != 1 || st.Features != 2 || st.Level != v1alpha1.LevelStable {
				t.Errorf("the status is %+v", st)
			}
			c.events("Opened", "Closed")
		})
	}
}

// events waits until there is an event of each reason about the component or its features.
func (c *scene) events(reasons ...string) {
	c.t.Helper()
	eventually(c.t, "events", func(ctx context.Context) error {
		list, err := c.kube.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		missing := map[string]bool{}
		for _, r := range reasons {
			missing[r] = true
		}
		for i := range list.Items {
			e := &list.Items[i]
			if e.InvolvedObject.Name == c.name || strings.HasPrefix(e.InvolvedObject.Name, c.name+".") {
				delete(missing, e.Reason)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("there is no event of %v", missing)
		}
		return nil
	})
}

// TestE2EBadSettingsBaked is scenario 15 in baked mode: all errors are told with the nearest name, and the last good settings stay,
// also those of an earlier process.
func TestE2EBadSettingsBaked(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "bad-baked", sceneOptions{mode: "Baked", gates: []string{"TasksTimeout", "EnvSecret"}})
	c.enforced()
	c.set(map[string]string{"tasks-timeout": "true"})
	c.open(timeout)
	bad := map[string]string{"enable-api-fields": "alhpa", "env-secrets": "true", "tasks-timeout": "yes", "feature-gates": "EnvSecret=true,EnvSecret=false,Nobody=true"}
	eventually(t, "bad settings to be refused with no webhook running", func(context.Context) error {
		if err := c.trySet(bad); !apierrors.IsInvalid(err) {
			return fmt.Errorf("no refusal: %w", errors.Join(err, errors.New("bad settings")))
		}
		return nil
	})
	c.around(bad)
	c.accepted(metav1.ConditionFalse, v1alpha1.ReasonInvalidSettings, `"alhpa" is no level`, "alpha", "env-secrets", "env-secret", "neither true nor false", "stands there twice", "Nobody", "the last good settings stay in force")
	c.open(timeout)
	c.inForce("{env: {A: {secret: s}}}")
	c.events(v1alpha1.ReasonInvalidSettings)
	c.set(map[string]string{})
	c.accepted(metav1.ConditionTrue, "")
	c.inForce(timeout)

	// Deleted settings are the defaults.
	c.set(map[string]string{"tasks-timeout": "true"})
	c.open(timeout)
	if err := c.kube.CoreV1().ConfigMaps(c.name).Delete(t.Context(), "flags", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.inForce(timeout)
	c.open("{description: d}")
}

// around writes settings that a policy refuses.
func (c *scene) around(data map[string]string) {
	c.t.Helper()
	c.pastTheGuard(func() error { return c.trySet(data) })
}

// TestE2EBadSettingsLive: a policy refuses bad settings; what got in all the same reads as not set and is told.
func TestE2EBadSettingsLive(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "bad-live", sceneOptions{gates: []string{"TasksTimeout", "EnvSecret"}})
	c.enforced()
	for key, value := range map[string]string{"enable-api-fields": "alhpa", "env-secrets": "true", "tasks-timeout": "yes", "feature-gates": "Nobody=true"} {
		eventually(t, key+" to be refused", func(context.Context) error {
			if err := c.trySet(map[string]string{key: value}); !apierrors.IsInvalid(err) {
				return fmt.Errorf("no refusal: %w", errors.Join(err, errors.New(key)))
			}
			return nil
		})
	}
	c.around(map[string]string{"enable-api-fields": "alhpa", "env-secret": "true"})
	c.accepted(metav1.ConditionFalse, v1alpha1.ReasonInvalidSettings, `"alhpa" is no level`, "what is wrong reads as not set")
	c.open("{env: {A: {secret: s}}}")
	c.inForce(timeout)
	c.events(v1alpha1.EventRestored)
}

// TestE2ESettingsDeletedLive is scenario 16 live: a policy refuses the deletion, and settings that are gone all the same are put
// back.
func TestE2ESettingsDeletedLive(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "gone-live", sceneOptions{gates: []string{"TasksTimeout", "EnvSecret"}})
	c.enforced()
	want := map[string]string{"tasks-timeout": "true"}
	c.set(want)
	c.open(timeout)
	c.enabled("tasks-timeout", true)
	settings := c.kube.CoreV1().ConfigMaps(c.name)
	eventually(t, "the deletion to be refused", func(ctx context.Context) error {
		return refused(settings.Delete(ctx, "flags", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}), `these are the settings of component "gone-live"`)
	})
	first, err := settings.Get(t.Context(), "flags", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bindings := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	eventually(t, "the settings to be deleted", func(ctx context.Context) error {
		if err := bindings.Delete(ctx, "features.gone-live.settings", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return settings.Delete(ctx, "flags", metav1.DeleteOptions{})
	})
	eventually(t, "the settings to be put back", func(ctx context.Context) error {
		var cm *corev1.ConfigMap
		cm, err := settings.Get(ctx, "flags", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if cm.UID == first.UID || !maps.Equal(cm.Data, want) {
			return fmt.Errorf("they are %v", cm.Data)
		}
		return nil
	})
	c.open(timeout)
	c.inForce("{env: {A: {secret: s}}}")
	c.events(v1alpha1.EventSettingsPutBack)
}

// TestE2ESettingsThatNobodyMayRead: what is missing is told with what to do.
func TestE2ESettingsThatNobodyMayRead(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "unread", sceneOptions{mode: "Baked", gates: []string{"TasksTimeout"}, noSettings: true})
	eventually(t, "it to be told", func(context.Context) error {
		list := c.status().Conditions
		if err := is(list, v1alpha1.ConditionEnforced, metav1.ConditionUnknown, v1alpha1.ReasonSettingsUnknown); err != nil {
			return err
		}
		if m := meta.FindStatusCondition(list, v1alpha1.ConditionEnforced).Message; !strings.Contains(m, "kubectl create role ") {
			return errors.New(m) // the ConfigMap is being read
		}
		return nil
	})
	c.follow(c.status().Conditions, v1alpha1.ConditionEnforced)
	c.enforced()
	c.inForce(timeout)
}
