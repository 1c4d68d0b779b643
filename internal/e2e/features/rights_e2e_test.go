//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/tools/clustertest"
)

// TestE2EOnlyNamedConfigMaps: the account of the role features reads the ConfigMaps that the installation names, and no other. The API
// server asks the writer of a policy and of its binding for rights to the parameter; those by name are enough for it. Without them, policies that
// stand go on reading the settings.
func TestE2EOnlyNamedConfigMaps(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := install(ctx, clustertest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	controller, err := s.start(ctx, "features")
	if err != nil {
		t.Fatal(err)
	}
	c := newScene(t, s, "named", sceneOptions{gates: []string{"TasksTimeout", "EnvSecret"}})
	c.enforced()
	c.set(map[string]string{"tasks-timeout": "true"})
	c.open(timeout)
	c.inForce("{env: {A: {secret: s}}}")

	file, err := s.kubeconfig(ctx, t.TempDir(), "sluice-features")
	if err != nil {
		t.Fatal(err)
	}
	account, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	as := kubernetes.NewForConfigOrDie(account)
	if _, err := as.CoreV1().ConfigMaps(c.name).Get(ctx, "flags", metav1.GetOptions{}); err != nil {
		t.Errorf("the settings of the component: %v", err)
	}
	for _, ns := range []string{c.name, systemNamespace, "default"} {
		if _, err := s.kube.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "private"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := as.CoreV1().ConfigMaps(ns).Get(ctx, "private", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a ConfigMap in %s that is not named: %v", ns, err)
		}
		if _, err := as.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("the ConfigMaps in %s: %v", ns, err)
		}
	}
	bindings := as.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	binding := func(name string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
		return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "try"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: "sluice-features-anchor", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
				ParamRef: &admissionregistrationv1.ParamRef{Namespace: c.name, Name: name, ParameterNotFoundAction: new(admissionregistrationv1.AllowAction)},
			},
		}
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := bindings.Create(ctx, binding("flags"), dry); err != nil {
		t.Errorf("a binding to the settings: %v", err)
	}
	if _, err := bindings.Create(ctx, binding("private"), dry); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "paramRef: Forbidden") {
		t.Errorf("a binding to a ConfigMap that is not named: %v", err)
	}

	// The installation names the ConfigMap no longer.
	stop(t, controller)
	for _, name := range []string{"sluice-features-settings-flags", "sluice-features-settings-flags-missing"} {
		if err := s.kube.RbacV1().RoleBindings(c.name).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the right to be gone", func(ctx context.Context) error {
		if _, err := as.CoreV1().ConfigMaps(c.name).Get(ctx, "flags", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("it is there: %w", errors.Join(err, errors.New("no refusal")))
		}
		return nil
	})
	if _, err := s.start(ctx, "features"); err != nil {
		t.Fatal(err)
	}
	c.told(v1alpha1.ConditionEnforced, metav1.ConditionUnknown, v1alpha1.ReasonSettingsUnknown, "the settings cannot be read", "--resource-name=flags")
	c.open(timeout)
	c.inForce("{env: {A: {secret: s}}}")
	c.set(map[string]string{"env-secret": "true"})
	c.open("{env: {A: {secret: s}}}")
	c.inForce(timeout)
}
