//go:build e2e

package features

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
)

// TestE2ETwoComponentsOnOneConfigMap: the second is refused with a word, and leaves the first alone; when the first goes, the second is
// taken.
func TestE2ETwoComponentsOnOneConfigMap(t *testing.T) {
	t.Parallel()
	s := installed(t)
	for _, mode := range []string{"Live", "Baked"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			name := map[string]string{"Live": "beside-live", "Baked": "beside-baked"}[mode]
			c := newScene(t, s, name, sceneOptions{mode: mode, gates: []string{"TasksTimeout"}})
			c.enforced()
			second := *c
			second.features = 2
			second.name = "z-" + name
			text := fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Component\nmetadata: {name: %s}\nspec: {release: v1.5.0, mode: %s, configMap: {namespace: %s, name: flags}}\n", second.name, mode, name)
			for _, gate := range []string{"RetryOnError", "EnvSecret"} {
				text += "---\n" + second.feature(gate, featureParts[gate], sceneOptions{})
			}
			c.apply(text)
			second.told(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidDefinition,
				fmt.Sprintf("spec.configMap: %s/flags also holds the settings of component %q", name, name), "env-secret", "retry-on-error", "tasks-timeout", `its own ConfigMap`)
			c.set(map[string]string{"tasks-timeout": "true"})
			c.open("{tasksTimeout: 1m}")
			if err := refused(c.trySet(map[string]string{"env-secret": "true"}), "there is no key env-secret"); err != nil {
				t.Errorf("the first knows its own keys only: %v", err)
			}
			if err := is(c.status().Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, ""); err != nil {
				t.Errorf("the first: %v", err)
			}

			if err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("components")).Delete(t.Context(), c.name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the second to have the ConfigMap for itself", func(context.Context) error { return c.trySet(map[string]string{"env-secret": "true"}) })
			second.told(v1alpha1.ConditionAccepted, metav1.ConditionTrue, "")
			c.open("{env: {a: {secret: s}}}")
			second.enforced()
			if err := refused(c.trySet(map[string]string{"tasks-timeout": "true"}), "there is no key tasks-timeout"); err != nil {
				t.Errorf("bad settings of the second: %v", err)
			}
		})
	}
}
