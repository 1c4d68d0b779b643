package config_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/config"
)

func TestFeaturesAreInstalledWhereTheyAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		roles []string
		want  []string
	}{
		"default": {nil, nil}, "another": {[]string{"resolver-git"}, nil},
		"controller": {[]string{config.FeaturesRole}, []string{"sluice-features"}},
		"both":       {[]string{config.FeaturesRole, config.FeatureWebhookRole}, []string{"sluice-feature-webhook", "sluice-features"}},
		"all":        {[]string{"all"}, []string{"sluice-feature-webhook", "sluice-features"}},
	} {
		all := objects(t, config.Options{Roles: test.roles})
		got := slices.DeleteFunc(names(all, "Deployment"), func(n string) bool { return !strings.HasPrefix(n, "sluice-feature") })
		if diff := cmp.Diff(test.want, slices.Clip(got), cmp.Transformer("set", func(l []string) string { return strings.Join(l, " ") })); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if crds := names(all, "CustomResourceDefinition"); slices.Contains(crds, "features.sluice.dev") != (test.want != nil) {
			t.Errorf("%s: the CRDs are %v", name, crds)
		}
	}
}

// Whoever has an account of these roles may write nothing that is gated, read no Secret but its own, and list no ConfigMap that it
// was not given.
func TestTheRolesForFeaturesMayDoWhatTheyMustOnly(t *testing.T) {
	all := objects(t, config.Options{Roles: []string{config.FeaturesRole, config.FeatureWebhookRole}, FeatureSettings: []string{"team/flags"}, FeatureUsage: []string{"widgets.demo.dev", "pods"}})
	got := map[string]string{}
	for _, u := range all {
		if u.GetKind() != "ClusterRole" && u.GetKind() != "Role" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			for _, resource := range r.Resources {
				key := strings.TrimSuffix(u.GetNamespace()+"/"+u.GetName()+" "+resource+" "+strings.Join(r.ResourceNames, " "), " ")
				got[key] = strings.Join(r.Verbs, " ")
			}
		}
	}
	const policies, hooks = "list watch create update patch delete", "list watch create update patch"
	want := map[string]string{
		"/sluice-features components": "list watch", "/sluice-features features": "list watch", "/sluice-features featurereports": "get list watch",
		"/sluice-features components/status": "update", "/sluice-features features/status": "update",
		"/sluice-features customresourcedefinitions":   "get list watch",
		"/sluice-features validatingadmissionpolicies": policies, "/sluice-features validatingadmissionpolicybindings": policies,
		"/sluice-features mutatingadmissionpolicies": policies, "/sluice-features mutatingadmissionpolicybindings": policies,
		"/sluice-features validatingwebhookconfigurations sluice-features": hooks, "/sluice-features mutatingwebhookconfigurations sluice-features": hooks,
		"/sluice-features configmaps *":                                           "get",
		"sluice-system/sluice-features configmaps sluice-features-anchor":         "get",
		"default/sluice-features-events events":                                   "create patch",
		"sluice-system/sluice-features configmaps sluice-feature-webhook":         "list watch",
		"sluice-system/sluice-features configmaps config-defaults":                "list watch",
		"sluice-system/sluice-features leases":                                    "create list patch delete",
		"/sluice-feature-webhook components":                                      "get list watch",
		"/sluice-feature-webhook features":                                        "list watch",
		"/sluice-feature-webhook featurereports":                                  "get list watch",
		"/sluice-feature-webhook customresourcedefinitions":                       "get list watch",
		"/sluice-feature-webhook namespaces":                                      "get",
		"/sluice-feature-webhook subjectaccessreviews":                            "create",
		"sluice-system/sluice-feature-webhook secrets sluice-feature-webhook-tls": "get create patch update",
		"sluice-system/sluice-feature-webhook configmaps sluice-feature-webhook":  "get create patch",
		"sluice-system/sluice-feature-webhook configmaps config-defaults":         "list watch",
		"sluice-system/sluice-feature-webhook leases":                             "create list patch delete",
		"/sluice-features-usage-widgets.demo.dev widgets":                         "list",
		"/sluice-features-usage-pods pods":                                        "list",
		"team/sluice-features-settings-flags configmaps flags":                    "get list watch",
		"team/sluice-features-settings-flags-missing configmaps":                  "create",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%v", diff, slices.Sorted(maps.Keys(got)))
	}
}

func TestSettingsThatAreNoConfigMapAreRefused(t *testing.T) {
	for _, s := range []string{"flags", "team/", "/flags", "team/fl ags", "team/flags\n- x", "Team/flags"} {
		if _, err := config.Manifests(config.Options{Image: testImage, Roles: []string{config.FeaturesRole}, FeatureSettings: []string{s}}); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
	if _, err := config.Manifests(config.Options{Image: testImage, Roles: []string{"resolver-git"}, FeatureSettings: []string{"team/flags"}}); err == nil {
		t.Error("settings without a role for them are taken")
	}
}

func TestUsageOfWhatIsNoResourceIsRefused(t *testing.T) {
	for _, s := range []string{"", ".demo.dev", "widgets.", "widgets.demo dev", "Widgets.demo.dev", "widgets.demo.dev\n- x"} {
		if _, err := config.Manifests(config.Options{Image: testImage, Roles: []string{config.FeaturesRole}, FeatureUsage: []string{s}}); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
	if _, err := config.Manifests(config.Options{Image: testImage, Roles: []string{"resolver-git"}, FeatureUsage: []string{"widgets.demo.dev"}}); err == nil {
		t.Error("usage without the role that counts it is taken")
	}
}
