package controller

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/config"
	"sluice.dev/resolve"
	"sluice.dev/tools/kube"
)

// echo gives back what it gets.
type echo struct{ name string }

func (e echo) Spec() resolve.Spec {
	return resolve.Spec{Name: e.name, Doc: "Gives back what it gets.", ConfigMap: e.name + "-resolver-config", Params: []resolve.Param{{Name: "text", Required: true, Doc: "What to give back."}}}
}

func (echo) Resolve(_ context.Context, r *resolve.Request) (*resolve.Resource, error) {
	data := []byte(r.Get("text"))
	return &resolve.Resource{Data: data, Source: resolve.Source{URI: "echo:", Digest: resolve.SHA256(data)}}, nil
}

func TestTheCommandLine(t *testing.T) {
	one, two := []resolve.Resolver{echo{"hub"}}, []resolve.Resolver{echo{"hub"}, echo{"other"}}
	for name, test := range map[string]struct {
		args      []string
		resolvers []resolve.Resolver
		out, err  string
	}{
		"one request":           {[]string{"resolve", "text=a: 1"}, one, "a: 1", ""},
		"of one of two":         {[]string{"resolve", "other", "text=a: 1"}, two, "a: 1", ""},
		"of none of two":        {[]string{"resolve", "text=a: 1"}, two, "", "no resolver is named; there are hub, other"},
		"all errors":            {[]string{"resolve", "txt=a"}, one, "", `unknown parameter "txt" (did you mean "text"?)`},
		"no value":              {[]string{"resolve", "text"}, one, "", `"text": want PARAM=VALUE`},
		"manifests":             {[]string{"manifests", "--image=example.test/x:v1"}, one, "image: example.test/x:v1", ""},
		"no image":              {[]string{"manifests"}, one, "", "name the container image"},
		"an image with a space": {[]string{"manifests", "--image=a b"}, one, "", "name the container image"},
		"a wrong namespace":     {[]string{"manifests", "--image=x", "--namespace=Bad_Name"}, one, "", `"Bad_Name" is no name of a namespace`},
		"help names the forms":  {[]string{"manifests", "-h"}, one, "resolve [NAME] PARAM=VALUE", ""},
		"help of one form":      {[]string{"resolve", "--help"}, one, "print what installs it there", ""},
		"another command":       {[]string{"serve"}, one, "", `unknown argument "serve"`},
		"an unknown flag":       {[]string{"--slot=1"}, one, "", "unknown flag: --slot"},
		"help":                  {[]string{"--help"}, one, "--slots", ""},
		"two of one name":       {[]string{"manifests", "--image=x"}, []resolve.Resolver{echo{"hub"}, echo{"hub"}}, "", "two resolvers have the name"},
		"no resolver":           {nil, nil, "", "there is no resolver to run"},
		"a log of another kind": {[]string{"--log-format=xml", "--kubeconfig=testdata/none"}, one, "", "testdata/none"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := run(t.Context(), test.args, &out, test.resolvers)
			if !strings.Contains(out.String(), test.out) || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%v, %s", err, out.String())
			}
		})
	}
}

// TestThePrintedRightsAreThoseOfOurOwnResolvers: what a process needs is written here and in the chart of Sluice. Each ConfigMap is named here,
// where the chart has one rule for its namespace.
func TestThePrintedRightsAreThoseOfOurOwnResolvers(t *testing.T) {
	ours, err := config.Manifests(config.Options{Image: "x", Roles: []string{"resolver-hub"}})
	if err != nil {
		t.Fatal(err)
	}
	want := rightsOf(t, string(ours), "sluice-system", "sluice-resolver-hub")
	printed := manifestsOf([]resolve.Resolver{echo{"hub"}}, Options{Namespace: "sluice-system", Account: "a"}.withDefaults(), "x")
	got := rightsOf(t, printed, "sluice-system", "a")
	for what, verbs := range map[string][]string{"configmaps": {"list", "watch"}, "configmaps resolver-schema-hub": {"create", "patch"}} {
		if !slices.Equal(want[what], verbs) {
			t.Errorf("the chart gives %v for %s", want[what], what)
		}
		delete(want, what)
	}
	for _, name := range []string{"resolver-cache-config", "resolvers-feature-flags", "resolver-verification-config", "hub-resolver-config", "config-defaults"} {
		want["configmaps "+name] = []string{"list", "watch"}
	}
	want["configmaps resolver-schema-hub"] = []string{"create", "list", "patch", "watch"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// rightsOf returns the verbs that the bindings in manifests give to an account, by the resource and the name of the object.
func rightsOf(t *testing.T, manifests, namespace, account string) map[string][]string {
	t.Helper()
	objects, err := kube.Decode([]byte(manifests))
	if err != nil {
		t.Fatal(err)
	}
	decode := func(u *unstructured.Unstructured, into any) {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
			t.Fatal(err)
		}
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, u := range objects {
		if strings.HasSuffix(u.GetKind(), "Role") {
			var role rbacv1.ClusterRole
			decode(u, &role)
			rules[u.GetKind()+role.Name] = role.Rules
		}
	}
	out := map[string][]string{}
	for _, u := range objects {
		if !strings.HasSuffix(u.GetKind(), "RoleBinding") {
			continue
		}
		var b rbacv1.ClusterRoleBinding
		decode(u, &b)
		if !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return s.Name == account && s.Namespace == namespace }) {
			continue
		}
		for _, r := range rules[b.RoleRef.Kind+b.RoleRef.Name] {
			names := r.ResourceNames
			if names == nil {
				names = []string{""}
			}
			slices.Sort(r.Verbs)
			for _, name := range names {
				out[strings.TrimSpace(strings.Join(r.Resources, ",")+" "+name)] = r.Verbs
			}
		}
	}
	return out
}

// aliased goes by another name, too.
type aliased struct{ echo }

func (a aliased) Spec() resolve.Spec {
	spec := a.echo.Spec()
	spec.Aliases = []string{"other"}
	return spec
}

func TestAnAliasThatNoLabelCanHaveIsRefused(t *testing.T) {
	if err := Run(t.Context(), Options{}, aliased{echo{"hub"}}); err == nil || !strings.Contains(err.Error(), "remove the alias other") {
		t.Errorf("error %v", err)
	}
}

// started is a resolver that cannot be started, and is closed.
type started struct {
	echo

	closed *bool
}

func (started) Start(context.Context) error { return errors.New("no such library") }

func (s started) Close() { *s.closed = true }

func TestAResolverThatCannotStartIsClosed(t *testing.T) {
	closed := false
	own := ownOf([]resolve.Resolver{started{echo{"hub"}, &closed}})
	build, err := own.Make(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, free, err := build(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "resolver hub: no such library") {
		t.Errorf("error %v", err)
	}
	if err := free(); err != nil || !closed {
		t.Errorf("it is not closed: %v", err)
	}
	if err := run(t.Context(), []string{"resolve", "text=x"}, io.Discard, []resolve.Resolver{started{echo{"hub"}, &closed}}); err != nil {
		t.Errorf("without a cluster: %v", err)
	}
}
