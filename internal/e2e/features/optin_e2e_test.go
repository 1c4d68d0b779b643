//go:build e2e

package features

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/tools/clustertest"
)

// TestE2EOptingInWithoutEffectIsTold: a role with a name that no Feature has is refused, and a label with another value is warned of.
func TestE2EOptingInWithoutEffectIsTold(t *testing.T) {
	t.Parallel()
	s := installed(t)
	roles, dry := s.kube.RbacV1().ClusterRoles(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for name, refused := range map[string]bool{"acme.AlphaField": true, "acme.alpha-field": false} {
		rule := rbacv1.PolicyRule{APIGroups: []string{"sluice.dev"}, Resources: []string{"features"}, ResourceNames: []string{name}, Verbs: []string{"use"}}
		_, err := roles.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "early"}, Rules: []rbacv1.PolicyRule{rule}}, dry)
		if refused && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "there is no Feature acme.AlphaField; its name is COMPONENT.GATE with the gate in kebab-case")) || !refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		rule.Resources = []string{"components"}
		if _, err := roles.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "early"}, Rules: []rbacv1.PolicyRule{rule}}, dry); err != nil {
			t.Errorf("another resource: %v", err)
		}
	}
	if _, err := roles.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "early"}}, dry); err != nil {
		t.Errorf("a role without rules: %v", err)
	}
	w := &clustertest.Warnings{}
	config := rest.CopyConfig(s.admin)
	config.WarningHandler = w
	namespaces := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces()
	for value, warned := range map[string]bool{"true": true, "enabled": false, "disabled": false} {
		w.Take()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "early", Labels: map[string]string{"feature.sluice.dev/acme.AlphaField": value, "a": "b"}}}
		if _, err := namespaces.Create(t.Context(), ns, dry); err != nil {
			t.Fatal(err)
		}
		if text := w.Take(); strings.Contains(text, "feature.sluice.dev/acme.AlphaField has no effect: only the value enabled opts in") != warned {
			t.Errorf("%s: %q", value, text)
		}
	}
}
