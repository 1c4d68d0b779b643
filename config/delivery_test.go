package config_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/config"
)

func TestDeliveriesAreInstalledWhereTheyAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		roles []string
		want  bool
	}{
		"default": {nil, false}, "another": {[]string{"resolver-git"}, false},
		"named": {[]string{"resolution", config.DeliveryRole}, true}, "all": {[]string{"all"}, true},
	} {
		all := objects(t, config.Options{Roles: test.roles})
		if got := slices.Contains(names(all, "CustomResourceDefinition"), "deliveries.sluice.dev"); got != test.want {
			t.Errorf("%s: the CRD is there: %v", name, got)
		}
		if got := slices.Contains(names(all, "Deployment"), "sluice-delivery"); got != test.want {
			t.Errorf("%s: the Deployment is there: %v", name, got)
		}
	}
}

// Whoever has the controller's account may write no more than its own business, and be nobody else where no one has allowed it.
func TestTheControllerOfDeliveriesMayDoNothingThatItDelivers(t *testing.T) {
	all := objects(t, config.Options{Roles: []string{config.DeliveryRole}})
	mine := map[string]bool{}
	for _, u := range all {
		if u.GetKind() != "ClusterRoleBinding" && u.GetKind() != "RoleBinding" {
			continue
		}
		subjects, _, err := unstructured.NestedSlice(u.Object, "subjects")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range subjects {
			if m, ok := s.(map[string]any); ok && m["name"] == "sluice-delivery" {
				role, _, _ := unstructured.NestedString(u.Object, "roleRef", "name")
				mine[u.GetKind()+" "+role] = true
			}
		}
	}
	if diff := cmp.Diff(map[string]bool{"ClusterRoleBinding sluice-delivery": true, "RoleBinding sluice-member": true}, mine); diff != "" {
		t.Error(diff)
	}
	for _, u := range all {
		if u.GetKind() != "ClusterRole" || u.GetName() != "sluice-delivery" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role); err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		for _, r := range role.Rules {
			for _, resource := range r.Resources {
				got[resource+"."+r.APIGroups[0]] = r.Verbs
			}
		}
		want := map[string][]string{
			"deliveries.sluice.dev": {"get", "list", "watch", "patch"}, "deliveries/status.sluice.dev": {"update"}, "deliveries/finalizers.sluice.dev": {"update"},
			"resolutionrequests.resolution.tekton.dev": {"get", "list", "watch", "create", "delete"}, "events.": {"create", "patch"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}
