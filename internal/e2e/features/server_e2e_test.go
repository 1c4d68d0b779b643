//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/tools/clustertest"
)

// Older API servers have no mutating policies, and those before have no validating ones either.
var (
	withoutMutating = []clustertest.Option{
		clustertest.APIServerArg("feature-gates=MutatingAdmissionPolicy=false"),
		clustertest.APIServerArg("runtime-config=admissionregistration.k8s.io/v1/mutatingadmissionpolicies=false,admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings=false"),
	}
	withoutPolicies = []clustertest.Option{
		clustertest.APIServerArg("feature-gates=MutatingAdmissionPolicy=false"),
		clustertest.APIServerArg("disable-admission-plugins=ValidatingAdmissionPolicy"),
		clustertest.APIServerArg("runtime-config=admissionregistration.k8s.io/v1/mutatingadmissionpolicies=false,admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings=false," +
			"admissionregistration.k8s.io/v1/validatingadmissionpolicies=false,admissionregistration.k8s.io/v1/validatingadmissionpolicybindings=false"),
	}
)

// TestE2EOlderServers has an API server grow: without policies the webhook enforces all; without mutating ones what is dropped;
// then none. Status says so, and nobody restarts the controller or the webhook. Back again the same.
func TestE2EOlderServers(t *testing.T) {
	t.Parallel()
	cluster := clustertest.Start(t, withoutPolicies...)
	s, err := install(t.Context(), cluster, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"features", "feature-webhook"} {
		p, err := s.start(context.WithoutCancel(t.Context()), role)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Kill()
	}
	c := newScene(t, s, "older", sceneOptions{mode: "Baked", gates: []string{"TasksTimeout"}})
	c.apply(c.feature("TaskTimeout", featureParts["TaskTimeout"], sceneOptions{whenDisabled: "Drop"}))
	c.apply(c.feature("RetryOnError", featureParts["RetryOnError"], sceneOptions{whenDisabled: "Warn"}))
	c.features = 3
	const retry, dropped = "{onError: retry}", "{tasks: [{name: a, timeout: 1m}]}"
	by := func(what string, want map[string]string) {
		t.Helper()
		eventually(t, what, func(ctx context.Context) error {
			got := map[string]string{}
			for kebab := range want {
				u, err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("features")).Get(ctx, "older."+kebab, metav1.GetOptions{})
				if err != nil {
					return err
				}
				list, _, _ := unstructured.NestedSlice(u.Object, "status", "enforcedBy")
				for _, e := range list {
					if m, ok := e.(map[string]any); ok {
						got[kebab] += fmt.Sprint(m["kind"])
					}
				}
				conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
				for _, x := range conditions {
					if m, ok := x.(map[string]any); ok && m["type"] == v1alpha1.ConditionEnforced {
						got[kebab] += fmt.Sprintf(" %s %s", m["status"], m["reason"])
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
		c.inForce(timeout, "spec.tasksTimeout")
		eventually(t, "a field to be dropped", func(context.Context) error {
			u, err := c.try(dropped)
			if err != nil {
				return err
			}
			if diff := cmp.Diff(c.pipeline("x", "{tasks: [{name: a}]}").Object["spec"], u.Object["spec"]); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
		eventually(t, "one warning", func(context.Context) error {
			c.warnings.Take()
			if _, err := c.try(retry); err != nil {
				return err
			}
			if w := c.warnings.Take(); strings.Count(w, "RetryOnError") != 1 {
				return fmt.Errorf("the warnings are %q", w)
			}
			return nil
		})
		c.open("{description: d}")
	}
	hooks := func(want bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("webhooks: %t", want), func(ctx context.Context) error {
			n := 0
			v, err := c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "sluice-features", metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			for i := range v.Webhooks {
				if name := v.Webhooks[i].Name; !strings.Contains(name, ".settings.") && !strings.Contains(name, ".probe.") { // baked settings have no policy
					n++
				}
			}
			m, err := c.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "sluice-features", metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			if n += len(m.Webhooks); (n > 0) != want {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		})
	}
	none := map[string]string{
		"tasks-timeout": "ValidatingWebhookConfiguration True ByWebhook", "task-timeout": "ValidatingWebhookConfigurationMutatingWebhookConfiguration True ByWebhook",
		"retry-on-error": "ValidatingWebhookConfiguration True ByWebhook",
	}
	by("all by the webhook", none)
	hooks(true)

	cluster.CrashWith(t, withoutMutating...)
	by("what is dropped by the webhook", map[string]string{
		"tasks-timeout": "ValidatingAdmissionPolicy True ByPolicy", "task-timeout": "MutatingWebhookConfigurationValidatingAdmissionPolicy True ByWebhook",
		"retry-on-error": "ValidatingAdmissionPolicy True ByPolicy",
	})
	hooks(true)

	cluster.CrashWith(t)
	by("all by policies", map[string]string{
		"tasks-timeout": "ValidatingAdmissionPolicy True ByPolicy", "task-timeout": "ValidatingAdmissionPolicyMutatingAdmissionPolicy True ByPolicy",
		"retry-on-error": "ValidatingAdmissionPolicy True ByPolicy",
	})
	hooks(false)

	cluster.CrashWith(t, withoutPolicies...)
	by("all by the webhook again", none)
}
