//go:build e2e

package features

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"sluice.dev/api/v1alpha1"
)

// TestE2ERestoringABackup: who restores has the verb use on all features, and gets back what was stored while they were on, as it was;
// others do not, and maxLevel holds for everybody.
func TestE2ERestoringABackup(t *testing.T) {
	t.Parallel()
	s := installed(t)
	c := newScene(t, s, "restore", sceneOptions{component: ", optIn: {rbac: true}", gates: []string{"TasksTimeout"}})
	c.apply(c.feature("EnvSecret", "{field: spec.script, versions: [v1]}", sceneOptions{whenDisabled: "Drop"}))
	c.features = 2
	pipelines := rbacv1.PolicyRule{APIGroups: []string{c.group}, Resources: []string{"*"}, Verbs: []string{"*"}}
	c.role("dev", "write", pipelines)
	c.role("restorer", "restore", pipelines, rbacv1.PolicyRule{APIGroups: []string{"sluice.dev"}, Resources: []string{"features"}, Verbs: []string{"use"}})
	as := func(user string) *rest.Config {
		config := rest.CopyConfig(c.quiet)
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
		return config
	}
	const spec = "{tasksTimeout: 1m, script: s}"
	create := func(user string) (*unstructured.Unstructured, error) {
		return c.of("v1", as(user)).Create(t.Context(), c.pipeline("kept", spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	// It was stored while the features were on.
	c.set(map[string]string{"tasks-timeout": "true", "env-secret": "true"})
	c.open(spec)
	c.must("kept", spec)
	backup, err := c.things.Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.set(nil)
	if err := c.things.Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.enforced()
	eventually(t, "others to be refused", func(context.Context) error { _, err := create("dev"); return refused(err, "spec.tasksTimeout") })
	backup.SetResourceVersion("")
	backup.SetUID("")
	backup.SetManagedFields(nil)
	eventually(t, "the restorer to restore", func(ctx context.Context) error {
		u, err := c.of("v1", as("restorer")).Create(ctx, backup, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if got, want := fmt.Sprint(u.Object["spec"]), fmt.Sprint(backup.Object["spec"]); got != want {
			t.Errorf("restored %s, want %s", got, want)
		}
		return nil
	})
	// What is stored goes on.
	if _, err := c.of("v1", as("dev")).Patch(t.Context(), "kept", "application/merge-patch+json", []byte(`{"spec":{"description":"d"}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("an update of what was restored: %v", err)
	}
	// maxLevel is for everybody.
	patch := []byte(`{"spec":{"maxLevel":"beta"}}`)
	if _, err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("components")).Patch(t.Context(), c.name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "maxLevel to hold for the restorer", func(context.Context) error { _, err := create("restorer"); return refused(err, "spec.tasksTimeout") })
}
