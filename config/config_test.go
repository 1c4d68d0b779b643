package config_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"sluice.dev/config"
)

func objects(t *testing.T, o config.Options) (out []*unstructured.Unstructured) {
	t.Helper()
	data, err := config.Manifests(o)
	if err != nil {
		t.Fatal(err)
	}
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := dec.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil || u.GetKind() == "" || u.GetName() == "" {
			t.Fatalf("%v in %v", err, u.Object)
		}
		out = append(out, u)
	}
}

func names(all []*unstructured.Unstructured, kind string) []string {
	var out []string
	for _, u := range all {
		if u.GetKind() == kind {
			out = append(out, u.GetName())
		}
	}
	slices.Sort(out)
	return out
}

func TestNoRoleReadsSecretsOfAllNamespacesUnlessAskedTo(t *testing.T) {
	for _, wide := range []bool{false, true} {
		all := objects(t, config.Options{WideCredentials: wide})
		reads := map[string]bool{}
		for _, u := range all {
			if u.GetKind() != "ClusterRole" {
				continue
			}
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role); err != nil {
				t.Fatal(err)
			}
			for _, r := range role.Rules {
				if slices.Contains(r.Verbs, "*") || slices.Contains(r.Resources, "*") {
					t.Errorf("%s has a wildcard: %v", role.Name, r)
				}
				if slices.Contains(r.Resources, "secrets") {
					reads[role.Name] = true
				}
			}
		}
		if diff := cmp.Diff([]string{"sluice-resolver-credentials"}, slices.Collect(maps.Keys(reads))); diff != "" {
			t.Error(diff)
		}
		bound := false
		for _, u := range all {
			role, _, _ := unstructured.NestedString(u.Object, "roleRef", "name")
			bound = bound || u.GetKind() == "ClusterRoleBinding" && reads[role]
		}
		if bound != wide {
			t.Errorf("with WideCredentials=%v the role is bound for the cluster: %v", wide, bound)
		}
	}
}

func TestEveryProcessRunsUnderAnAccountThatMayWriteTheStatus(t *testing.T) {
	all := objects(t, config.Options{})
	accounts := names(all, "ServiceAccount")
	if len(accounts) != 7 {
		t.Fatalf("accounts %v", accounts)
	}
	if diff := cmp.Diff(accounts, names(all, "Deployment")); diff != "" {
		t.Error(diff)
	}
	data, err := config.Manifests(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range accounts {
		if !bytes.Contains(data, []byte("'system:serviceaccount:sluice-system:"+a+"'")) {
			t.Errorf("%s is no writer", a)
		}
	}
}

func TestOptionsChangeWhatIsInstalled(t *testing.T) {
	beside := objects(t, config.Options{BesideTekton: true})
	if crds := names(beside, "CustomResourceDefinition"); slices.Contains(crds, "resolutionrequests.resolution.tekton.dev") {
		t.Errorf("beside Tekton: %v", crds)
	}
	if slices.Contains(names(beside, "Deployment"), "sluice-resolution") {
		t.Error("beside Tekton there are two lifecycle controllers")
	}
	data, err := config.Manifests(config.Options{BesideTekton: true, Image: "example.test/sluice:v1", Writers: []string{"system:serviceaccount:a:b"}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"'" + config.TektonWriter + "'":                 true,
		"'system:serviceaccount:a:b'":                   true,
		"--config-namespace=tekton-pipelines-resolvers": true,
		"--config-namespace=sluice-system":              false,
		"image: example.test/sluice:v1\n":               true,
		"image: sluice\n":                               false,
	} {
		if strings.Contains(string(data), text) != want {
			t.Errorf("%q is there: %v", text, !want)
		}
	}
	one := objects(t, config.Options{Roles: []string{"resolver-git"}})
	if diff := cmp.Diff([]string{"sluice-resolver-git"}, names(one, "Deployment")); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []config.Options{
		{Writers: []string{"admin"}},
		{Writers: []string{"system:serviceaccount:a:b', 'system:admin"}},
		{Writers: []string{"system:serviceaccount:a:"}},
		{Image: "x\n          privileged: true"},
	} {
		if _, err := config.Manifests(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func TestAddressesAreOpenedWhereTheResolversRead(t *testing.T) {
	for beside, namespace := range map[bool]string{false: "sluice-system", true: "tekton-pipelines-resolvers"} {
		got := map[string]map[string]any{}
		for _, u := range objects(t, config.Options{BesideTekton: beside, WideAddresses: true}) {
			if u.GetKind() == "ConfigMap" && u.GetNamespace() == namespace {
				got[u.GetName()], _, _ = unstructured.NestedMap(u.Object, "data")
			}
		}
		want := map[string]map[string]any{
			"http-resolver-config": {"allow-private-addresses": "true", "allow-plain-http": "true"},
			"hubresolver-config":   {"allow-private-requested-addresses": "true", "allow-plain-http": "true"},
			"git-resolver-config":  {"allow-private-requested-addresses": "true", "allow-plain-http-credentials": "true"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("beside Tekton %v: %s", beside, diff)
		}
	}
	if n := len(names(objects(t, config.Options{}), "ConfigMap")); n != 0 {
		t.Errorf("%d ConfigMaps without the option", n)
	}
}
