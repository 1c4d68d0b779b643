package config_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/config"
)

// TestReplicasSurviveDrains checks that every Deployment with several replicas has a PodDisruptionBudget and spreads its Pods, and
// that the webhooks have a priority class.
func TestReplicasSurviveDrains(t *testing.T) {
	budgets := map[string]policyv1.PodDisruptionBudget{}
	var deployments []appsv1.Deployment
	hooks := map[string]bool{} // Services that the API server calls
	for _, u := range objects(t, config.Options{Roles: []string{"all"}}) {
		switch u.GetKind() {
		case "PodDisruptionBudget":
			var b policyv1.PodDisruptionBudget
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &b, true); err != nil {
				t.Fatal(err)
			}
			budgets[b.Name] = b
		case "Deployment":
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &d, true); err != nil {
				t.Fatal(err)
			}
			deployments = append(deployments, d)
		case "Service":
			hooks[u.GetName()] = true
		}
	}
	several := 0
	for _, d := range deployments {
		pod := d.Spec.Template
		if hooks[d.Name] && pod.Spec.PriorityClassName != "system-cluster-critical" {
			t.Errorf("%s serves a webhook and has the priority class %q", d.Name, pod.Spec.PriorityClassName)
		}
		if *d.Spec.Replicas < 2 {
			continue
		}
		several++
		budget, ok := budgets[d.Name]
		if !ok || budget.Spec.MinAvailable.IntValue() != 1 {
			t.Errorf("%s has no PodDisruptionBudget that keeps one: %+v", d.Name, budget.Spec)
			continue
		}
		for what, selector := range map[string]*metav1.LabelSelector{
			"budget": budget.Spec.Selector, "spread": pod.Spec.TopologySpreadConstraints[0].LabelSelector,
		} {
			s, err := metav1.LabelSelectorAsSelector(selector)
			if err != nil || !s.Matches(labels.Set(pod.Labels)) {
				t.Errorf("%s: the %s does not select its Pods: %v", d.Name, what, err)
			}
			for _, other := range deployments {
				if other.Name != d.Name && s.Matches(labels.Set(other.Spec.Template.Labels)) {
					t.Errorf("%s: the %s selects the Pods of %s", d.Name, what, other.Name)
				}
			}
		}
	}
	if several < 5 {
		t.Errorf("%d Deployments with replicas", several)
	}
}

func TestUnknownRolesAreRefused(t *testing.T) {
	_, err := config.Manifests(config.Options{Image: testImage, Roles: []string{"git"}})
	if err == nil || !strings.Contains(err.Error(), `there is no role "git"; the roles are`) || !strings.Contains(err.Error(), "resolver-git") {
		t.Errorf("%v", err)
	}
	_, err = config.Manifests(config.Options{Image: testImage, Roles: []string{"resolver-git", "guards"}})
	if err == nil || !strings.Contains(err.Error(), `"guards"`) {
		t.Errorf("%v", err)
	}
	for _, o := range []config.Options{{Image: testImage, Roles: []string{}}, {Image: testImage, Values: []byte("roles: []")}, {Image: testImage, Values: []byte("roles: null")}} {
		if _, err = config.Manifests(o); err == nil || !strings.Contains(err.Error(), "no role is named; the roles are crd-guard,") {
			t.Errorf("no role: %v", err)
		}
	}
	for _, r := range config.RoleNames() {
		data, err := config.Manifests(config.Options{Image: testImage, Roles: []string{r}})
		if err != nil || r != "all" && !slices.ContainsFunc(decode(t, data), func(u *unstructured.Unstructured) bool {
			return u.GetKind() == "Deployment" && u.GetName() == "sluice-"+r
		}) {
			t.Errorf("%s: %v", r, err)
		}
	}
}
