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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
)

// patchSettings merges a patch into the ConfigMap of the component.
func (c *scene) patchSettings(patch string) error {
	_, err := c.kube.CoreV1().ConfigMaps(c.name).Patch(c.t.Context(), "flags", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// pastTheGuard writes settings that a policy refuses: its binding goes for a moment.
func (c *scene) pastTheGuard(write func() error) {
	c.t.Helper()
	bindings := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	eventually(c.t, "settings to get past the policy", func(ctx context.Context) error {
		if err := bindings.Delete(ctx, "features."+c.name+".settings", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return write()
	})
}

// TestE2ELockedSettings: settings cannot be made immutable, nor be written where nobody reads them. If they are all the same, conditions say
// what to do, and that works.
func TestE2ELockedSettings(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"Live", "Baked"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := newScene(t, installed(t), "locked-"+strings.ToLower(mode), sceneOptions{mode: mode, gates: []string{"TasksTimeout", "EnvSecret"}})
			c.enforced()
			c.set(map[string]string{"tasks-timeout": "true"})
			c.open(timeout)
			const plain = "would lock the settings of component"
			yes := true
			dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
			eventually(t, "settings that lock themselves to be refused", func(ctx context.Context) error {
				locked := c.settings(nil)
				locked.Immutable = &yes
				_, err := c.kube.CoreV1().ConfigMaps(c.name).Create(ctx, locked, dry)
				return errors.Join(refused(err, plain), refused(c.patchSettings(`{"immutable":true}`), plain),
					refused(c.patchSettings(`{"immutable":true,"data":{"env-secret":"true"}}`), plain))
			})
			for _, patch := range []string{`{"binaryData":{"env-secret":"dHJ1ZQ=="}}`, `{"binaryData":{"env-secret":"dHJ1ZQ=="},"data":{"tasks-timeout":"false"}}`, `{"binaryData":{"nobody":"dHJ1ZQ=="}}`} {
				if err := refused(c.patchSettings(patch), "nobody reads settings in binaryData"); err != nil {
					t.Errorf("%s: %v", patch, err)
				}
			}
			if err := c.patchSettings(`{"binaryData":{"_note":"dHJ1ZQ=="},"immutable":false}`); err != nil {
				t.Error(err)
			}

			c.pastTheGuard(func() error { return c.patchSettings(`{"binaryData":{"env-secret":"dHJ1ZQ=="}}`) })
			c.accepted(metav1.ConditionFalse, v1alpha1.ReasonInvalidSettings, "binaryData/env-secret", "nobody reads settings in binaryData")
			c.open(timeout)
			c.inForce("{env: {A: {secret: s}}}")
			if err := c.patchSettings(`{"binaryData":{"env-secret":null}}`); err != nil {
				t.Error(err)
			}
			c.accepted(metav1.ConditionTrue, "")

			c.pastTheGuard(func() error { return c.patchSettings(`{"immutable":true}`) })
			c.accepted(metav1.ConditionFalse, v1alpha1.ReasonInvalidSettings, "immutable", "kubectl delete configmap flags --namespace "+c.name)
			if err := c.patchSettings(`{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/held"]}}`); err != nil {
				t.Errorf("metadata of immutable settings: %v", err)
			}
			if err := c.patchSettings(`{"data":{"tasks-timeout":"false"}}`); !apierrors.IsInvalid(err) {
				t.Errorf("the API server changes immutable settings: %v", err)
			}
			maps := c.kube.CoreV1().ConfigMaps(c.name)
			was, err := maps.Get(t.Context(), "flags", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "immutable settings to be deleted", func(ctx context.Context) error {
				return maps.Delete(ctx, "flags", metav1.DeleteOptions{})
			})
			c.accepted(metav1.ConditionFalse, v1alpha1.ReasonInvalidSettings, "waits for its finalizers: example.com/held")
			c.open(timeout)
			if err := c.patchSettings(`{"metadata":{"finalizers":null}}`); err != nil {
				t.Fatal(err)
			}
			if mode == "Baked" {
				c.inForce(timeout) // nothing is set
				c.set(map[string]string{"tasks-timeout": "true"})
			}
			eventually(t, "settings that can be changed to be there again", func(ctx context.Context) error {
				var now *corev1.ConfigMap
				if now, err = maps.Get(ctx, "flags", metav1.GetOptions{}); err != nil {
					return err
				}
				if now.UID == was.UID || now.Immutable != nil || now.Data["tasks-timeout"] != "true" {
					return fmt.Errorf("they are %v, immutable: %v", now.Data, now.Immutable)
				}
				return nil
			})
			c.accepted(metav1.ConditionTrue, "")
			c.open(timeout)
			c.set(map[string]string{"env-secret": "true"})
			c.open("{env: {A: {secret: s}}}")
			c.inForce(timeout)
		})
	}
}
