//go:build e2e

package resolution

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1alpha1"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/tools/clustertest"
)

func request(namespace, name, resolver string, params ...v1beta1.Param) *v1beta1.ResolutionRequest {
	return &v1beta1.ResolutionRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{resolution.LabelType: resolver}},
		Spec:       v1beta1.ResolutionRequestSpec{Params: params},
	}
}

const merge = mergePatch

// grant gives a ServiceAccount of the namespace rights on requests there.
func (in *installation) grant(t *testing.T, namespace, account string, resources ...string) {
	t.Helper()
	rules := []rbacv1.PolicyRule{{APIGroups: []string{resolution.GroupName}, Resources: resources, Verbs: []string{"*"}}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: rules}
	if _, err := in.admin.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account}},
	}
	if _, err := in.admin.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.AwaitRights(t, in.admin, namespace)
}

func TestE2EAnAttackerWhoMayEditRequestsChangesNothingThatCounts(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	in.grant(t, ns, "attacker", "resolutionrequests")
	// Even with the right to write the status: only named writers do.
	in.grant(t, ns, "stronger", "resolutionrequests", "resolutionrequests/status")
	weak, strong := client(t, in.account(t, ns, "attacker")), client(t, in.account(t, ns, "stronger"))
	writer := client(t, in.account(t, "sluice-system", "sluice-resolver-git"))

	r := request(
		ns, "r", "git",
		v1beta1.Param{Name: "url", Value: v1beta1.StringValue("https://example.test/repo")},
		v1beta1.Param{Name: "list", Value: v1beta1.ArrayValue("a", "b")},
		v1beta1.Param{Name: "map", Value: v1beta1.ObjectValue(map[string]string{"k": "v"})},
	)
	r.Spec.URL = "https://example.test"
	if _, err := weak.ResolutionV1beta1().ResolutionRequests(ns).Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	attacks := []struct{ name, version, subresource, patch string }{
		{"another param", "v1beta1", "", `{"spec":{"params":[{"name":"url","value":"https://evil.test"}]}}`},
		{"another array", "v1beta1", "", `{"spec":{"params":[{"name":"url","value":"https://example.test/repo"},{"name":"list","value":["a","c"]},{"name":"map","value":{"k":"v"}}]}}`},
		{"another object", "v1beta1", "", `{"spec":{"params":[{"name":"url","value":"https://example.test/repo"},{"name":"list","value":["a","b"]},{"name":"map","value":{"k":"w"}}]}}`},
		{"another url", "v1beta1", "", `{"spec":{"url":"https://evil.test"}}`},
		{"no spec", "v1beta1", "", `{"spec":null}`},
		{"another param by v1alpha1", "v1alpha1", "", `{"spec":{"params":{"url":"https://evil.test"}}}`},
		{"one more param by v1alpha1", "v1alpha1", "", `{"spec":{"params":{"more":"x"}}}`},
		{"no spec by v1alpha1", "v1alpha1", "", `{"spec":null}`},
		{"another url by the annotation", "v1alpha1", "", `{"metadata":{"annotations":{"resolution.tekton.dev/v1beta1-spec":"{\"url\":\"https://evil.test\"}"}}}`},
		{"another array by the annotation", "v1alpha1", "", `{"metadata":{"annotations":{"resolution.tekton.dev/v1beta1-spec":"{\"url\":\"https://example.test\",\"params\":[{\"name\":\"list\",\"value\":[\"x\"]},{\"name\":\"map\",\"value\":{\"k\":\"v\"}}],\"order\":[\"url\",\"list\",\"map\"]}"}}}`},
		{"no annotation", "v1alpha1", "", `{"metadata":{"annotations":null}}`},
		{"a broken annotation", "v1alpha1", "", `{"metadata":{"annotations":{"resolution.tekton.dev/v1beta1-spec":"{"}}}`},
		{"another resolver", "v1beta1", "", `{"metadata":{"labels":{"resolution.tekton.dev/type":"http"}}}`},
		{"another resolver by v1alpha1", "v1alpha1", "", `{"metadata":{"labels":{"resolution.tekton.dev/type":"http"}}}`},
		{"another resolver by the older label", "v1beta1", "", `{"metadata":{"labels":{"resolution.tekton.dev/type":null,"resolution.tekton.dev/resolver":"http"}}}`},
		{"disagreeing labels", "v1beta1", "", `{"metadata":{"labels":{"resolution.tekton.dev/resolver":"http"}}}`},
		{"no label", "v1beta1", "", `{"metadata":{"labels":null}}`},
		{"a reserved label", "v1beta1", "", `{"metadata":{"labels":{"resolution.tekton.dev/trusted":"yes"}}}`},
		{"a controller", "v1beta1", "", `{"metadata":{"ownerReferences":[{"apiVersion":"tekton.dev/v1","kind":"TaskRun","name":"admin","uid":"1","controller":true}]}}`},
		{"a status", "v1beta1", "status", `{"status":{"data":"ZXZpbA==","conditions":[{"type":"Succeeded","status":"True"}]}}`},
		{"a status by v1alpha1", "v1alpha1", "status", `{"status":{"data":"ZXZpbA==","conditions":[{"type":"Succeeded","status":"True"}]}}`},
	}
	for _, finished := range []bool{false, true} {
		before, err := weak.ResolutionV1beta1().ResolutionRequests(ns).Get(t.Context(), "r", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range attacks {
			t.Run(fmt.Sprintf("%s/finished=%v", a.name, finished), func(t *testing.T) {
				c := weak
				var sub []string
				if a.subresource != "" {
					c, sub = strong, []string{a.subresource}
				}
				var err error
				if a.version == "v1beta1" {
					_, err = c.ResolutionV1beta1().ResolutionRequests(ns).Patch(t.Context(), "r", merge, []byte(a.patch), metav1.PatchOptions{}, sub...)
				} else {
					_, err = c.ResolutionV1alpha1().ResolutionRequests(ns).Patch(t.Context(), "r", merge, []byte(a.patch), metav1.PatchOptions{}, sub...)
				}
				if err == nil {
					t.Error("it was accepted")
				} else {
					t.Log(err)
				}
				after, err := weak.ResolutionV1beta1().ResolutionRequests(ns).Get(t.Context(), "r", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, after); diff != "" {
					t.Error(diff)
				}
			})
		}
		// A status in an update of the object itself has no effect at all.
		for _, patch := range []string{`{"status":{"data":"ZXZpbA=="}}`, `{"status":null}`} {
			if _, err := weak.ResolutionV1beta1().ResolutionRequests(ns).Patch(t.Context(), "r", merge, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Log(err)
			}
			if _, err := weak.ResolutionV1alpha1().ResolutionRequests(ns).Patch(t.Context(), "r", merge, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Log(err)
			}
			after, err := weak.ResolutionV1beta1().ResolutionRequests(ns).Get(t.Context(), "r", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before.Status, after.Status); diff != "" {
				t.Error(diff)
			}
		}
		if !finished {
			status := `{"status":{"data":"dA==","observedGeneration":1,"conditions":[{"type":"Succeeded","status":"True"}]}}`
			if _, err := writer.ResolutionV1beta1().ResolutionRequests(ns).Patch(t.Context(), "r", merge, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
				t.Fatalf("a named writer: %v", err)
			}
		}
	}

	// Not even a writer changes what has finished, in either version, nor removes it.
	for _, patch := range []string{
		`{"status":null}`, `{"status":{"data":"ZXZpbA=="}}`, `{"status":{"conditions":null}}`, `{"status":{"annotations":{"a":"b"}}}`,
		`{"status":{"conditions":[{"type":"Succeeded","status":"Unknown"}]}}`,
	} {
		if _, err := writer.ResolutionV1beta1().ResolutionRequests(ns).Patch(t.Context(), "r", merge, []byte(patch), metav1.PatchOptions{}, "status"); err == nil {
			t.Errorf("%s was accepted", patch)
		}
		if _, err := writer.ResolutionV1alpha1().ResolutionRequests(ns).Patch(t.Context(), "r", merge, []byte(patch), metav1.PatchOptions{}, "status"); err == nil {
			t.Errorf("%s was accepted by v1alpha1", patch)
		}
	}
	// What is harmless stays possible, through either version.
	if _, err := weak.ResolutionV1alpha1().ResolutionRequests(ns).Patch(t.Context(), "r", merge, []byte(`{"metadata":{"labels":{"team":"x"}}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := weak.ResolutionV1beta1().ResolutionRequests(ns).Patch(t.Context(), "r", merge, []byte(`{"metadata":{"labels":{"resolution.tekton.dev/resolver":"git"}}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	got, err := weak.ResolutionV1alpha1().ResolutionRequests(ns).Get(t.Context(), "r", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.Data != "dA==" || !got.Status.Finished() || got.Spec.Params["url"] != "https://example.test/repo" {
		t.Errorf("v1alpha1 reads %+v", got)
	}
}

// A status cannot be brought along, neither at creation nor where a request is deleted and made again, in either version.
func TestE2EARequestIsBornWithoutAStatus(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	in.grant(t, ns, "attacker", "resolutionrequests")
	c := client(t, in.account(t, ns, "attacker"))
	const object = `{"apiVersion":"resolution.tekton.dev/%s","kind":"ResolutionRequest","metadata":{"name":"r","labels":{"resolution.tekton.dev/type":"git"},"annotations":%s},` +
		`"spec":{},"status":{"data":"ZXZpbA==","observedGeneration":1,"conditions":[{"type":"Succeeded","status":"True"}],"refSource":{"uri":"git+https://good.test"}}}`
	spec := `{"resolution.tekton.dev/v1beta1-spec":"{\"status\":{\"data\":\"ZXZpbA==\"}}"}`
	for name, create := range map[string]func() error{
		"v1beta1": func() error {
			return c.ResolutionV1beta1().RESTClient().Post().Namespace(ns).Resource("resolutionrequests").Body(fmt.Appendf(nil, object, "v1beta1", "{}")).Do(t.Context()).Error()
		},
		"v1alpha1": func() error {
			return c.ResolutionV1alpha1().RESTClient().Post().Namespace(ns).Resource("resolutionrequests").Body(fmt.Appendf(nil, object, "v1alpha1", "{}")).Do(t.Context()).Error()
		},
		"v1alpha1 with an annotation": func() error {
			return c.ResolutionV1alpha1().RESTClient().Post().Namespace(ns).Resource("resolutionrequests").Body(fmt.Appendf(nil, object, "v1alpha1", spec)).Do(t.Context()).Error()
		},
	} {
		requests := c.ResolutionV1beta1().ResolutionRequests(ns)
		if err := create(); err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		got, err := requests.Get(t.Context(), "r", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v1beta1.ResolutionRequestStatus{}, got.Status); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if err := requests.Delete(t.Context(), "r", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// The rules of the CRD hold without the policies too: here the administrator, whom no policy names, is stopped by them.
func TestE2ERequestsThatNameNoResolverAreRefused(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	c := client(t, in.config)
	for name, test := range map[string]struct {
		labels map[string]string
		ok     bool
	}{
		"none":                {nil, false},
		"disagree":            {map[string]string{resolution.LabelType: "git", resolution.LabelResolver: "http"}, false},
		"reserved":            {map[string]string{resolution.LabelType: "git", resolution.GroupName + "/other": "x"}, false},
		"type":                {map[string]string{resolution.LabelType: "git", "team": "x"}, true},
		"older":               {map[string]string{resolution.LabelResolver: "bundle"}, true},
		"both, one in aliase": {map[string]string{resolution.LabelType: "bundles", resolution.LabelResolver: "bundle"}, true},
	} {
		r := request(ns, "", "")
		r.GenerateName, r.Labels = "r-", test.labels
		_, err := c.ResolutionV1beta1().ResolutionRequests(ns).Create(t.Context(), r, metav1.CreateOptions{})
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !apierrors.IsInvalid(err) {
			t.Errorf("%s: the error is of another kind: %v", name, err)
		}
	}
}

// A resolver that was taken over does harm to requests of its own only.
func TestE2EAResolverWritesTheStatusOfItsOwnRequestsOnly(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	custom := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "custom"}}
	if _, err := in.admin.CoreV1().Namespaces().Create(t.Context(), custom, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	types := map[string]map[string]string{
		"git": {resolution.LabelType: "git"}, "http": {resolution.LabelType: "http"}, "bundle": {resolution.LabelType: "bundle"}, "bundles": {resolution.LabelType: "bundles"},
		"in-cluster, older": {resolution.LabelResolver: "in-cluster"}, "git, older": {resolution.LabelResolver: "git"},
		"demo": {resolution.LabelType: "demo"}, "other": {resolution.LabelType: "other"},
	}
	admin := client(t, in.config).ResolutionV1beta1().ResolutionRequests(ns)
	made := map[string]string{}
	for name, labels := range types {
		r := request(ns, "", "")
		r.GenerateName, r.Labels = "r-", labels
		got, err := admin.Create(t.Context(), r, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made[name] = got.Name
	}
	for _, test := range []struct {
		namespace, account string
		may                []string
	}{
		{"sluice-system", "sluice-resolver-git", []string{"git", "git, older"}},
		{"sluice-system", "sluice-resolver-bundles", []string{"bundle", "bundles"}},
		{"sluice-system", "sluice-resolver-cluster", []string{"in-cluster, older"}},
		{"sluice-system", "sluice-resolver-dir", nil},
		{"sluice-system", "sluice-resolution", []string{"git", "http", "bundle", "bundles", "in-cluster, older", "git, older", "demo", "other"}},
		{"custom", "any", []string{"demo", "other"}},
		{"custom", "demo", []string{"demo", "bundle", "bundles"}},
		{"custom", "all", []string{"git", "http", "bundle", "bundles", "in-cluster, older", "git, older", "demo", "other"}},
		{"custom", "nobody", nil},
	} {
		t.Run(test.account, func(t *testing.T) {
			c := client(t, in.account(t, test.namespace, test.account))
			if test.namespace == "custom" {
				in.bindCluster(t, "sluice-resolver", test.namespace, test.account)
			}
			for name := range types {
				dry := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
				patch := []byte(`{"status":{"data":"eA==","conditions":[{"type":"Succeeded","status":"True"}]}}`)
				_, beta := c.ResolutionV1beta1().ResolutionRequests(ns).Patch(t.Context(), made[name], merge, patch, dry, "status")
				_, alpha := c.ResolutionV1alpha1().ResolutionRequests(ns).Patch(t.Context(), made[name], merge, patch, dry, "status")
				for version, err := range map[string]error{"v1beta1": beta, "v1alpha1": alpha} {
					if want := slices.Contains(test.may, name); (err == nil) != want || (err != nil && !apierrors.IsForbidden(err)) {
						t.Errorf("%s, %s: may write %v: %v", name, version, want, err)
					}
				}
			}
		})
	}
}

// bindCluster binds a ClusterRole to a ServiceAccount, and waits until the API server knows of it.
func (in *installation) bindCluster(t *testing.T, role, namespace, account string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account}},
	}
	if _, err := in.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := client(t, in.account(t, namespace, account))
	eventually(t, "the rights of "+account, func(ctx context.Context) error {
		_, err := c.ResolutionV1beta1().ResolutionRequests("default").List(ctx, metav1.ListOptions{})
		return err
	})
}

// With a Lease of another role work could be taken from its processes, and never done.
func TestE2EAnAccountTouchesLeasesOfItsOwnRoleOnly(t *testing.T) {
	in := install(t)
	lease := func(name, roles string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{memberLabel: "true"}, Annotations: map[string]string{rolesAnnotation: roles},
		}}
	}
	leases := func(account string) coordinationv1client.LeaseInterface {
		return kubernetes.NewForConfigOrDie(in.account(t, "sluice-system", account)).CoordinationV1().Leases("sluice-system")
	}
	git, http, lifecycle, admin := leases("sluice-resolver-git"), leases("sluice-resolver-http"), leases("sluice-resolution"), in.admin.CoordinationV1().Leases("sluice-system")
	eventually(t, "the policy to act", func(ctx context.Context) error {
		_, err := git.Create(ctx, lease("other", "resolver-git"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("a foreign name: %w", err)
		}
		return nil
	})
	for _, l := range []*coordinationv1.Lease{
		lease("sluice-member-resolver-http-x", "resolver-git"), lease("sluice-member-resolver-git-x", "resolver-http"), lease("sluice-member-resolver-git-x", "resolver-git,resolver-http"),
		lease("sluice-member-resolver-git-x", ""), lease("sluice-member-resolver-gitx", "resolver-git"),
		{ObjectMeta: metav1.ObjectMeta{Name: "sluice-member-resolver-git-x"}},
	} {
		if _, err := git.Create(t.Context(), l, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
			t.Errorf("%s with the roles %v: %v", l.Name, l.Annotations, err)
		}
	}
	for _, name := range []string{"sluice-member-resolver-git-x", "sluice-member-sluice-resolver-git-x", "sluice-member-resolver-git-y"} {
		if _, err := git.Create(t.Context(), lease(name, "resolver-git"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.Create(t.Context(), lease("anything", ""), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	take := []byte(`{"metadata":{"annotations":{"sluice.dev/roles":"resolver-http"}}}`)
	for _, name := range []string{"sluice-member-resolver-git-x", "anything"} {
		if _, err := http.Patch(t.Context(), name, merge, take, metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s is changed by another role: %v", name, err)
		}
		if err := http.Delete(t.Context(), name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s is deleted by another role: %v", name, err)
		}
	}
	if _, err := git.Patch(t.Context(), "sluice-member-resolver-git-x", merge, take, metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a Lease becomes one of another role: %v", err)
	}
	if _, err := git.Patch(t.Context(), "sluice-member-resolver-git-x", merge, []byte(`{"spec":{"holderIdentity":"x"}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	for name, by := range map[string]coordinationv1client.LeaseInterface{
		"sluice-member-resolver-git-x": git, "sluice-member-sluice-resolver-git-x": git, "sluice-member-resolver-git-y": lifecycle, "anything": admin,
	} {
		if err := by.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With a Secret of its choice a process could have the token of any account of the namespace made.
func TestE2EOnlyTheSecretOfTheCertificateIsMade(t *testing.T) {
	in := install(t)
	secrets := kubernetes.NewForConfigOrDie(in.account(t, "sluice-system", "sluice-resolution")).CoreV1().Secrets("sluice-system")
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "stolen", Annotations: map[string]string{corev1.ServiceAccountNameKey: "sluice-resolver-git"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	if _, err := secrets.Create(t.Context(), token, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the token of another account: %v", err)
	}
	token.Name = TLSSecret
	if _, err := secrets.Create(t.Context(), token, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the same under the name of the certificate: %v", err)
	}
	eventually(t, "the policy to act", func(ctx context.Context) error {
		other := corev1apply.Secret(TLSSecret, "sluice-system").WithType(corev1.SecretTypeOpaque)
		_, err := secrets.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "x", DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("a Secret of another type: %w", err)
		}
		return nil
	})
	made := corev1apply.Secret(TLSSecret, "sluice-system").WithType(corev1.SecretTypeServiceAccountToken).WithAnnotations(token.Annotations)
	if _, err := secrets.Apply(t.Context(), made, metav1.ApplyOptions{FieldManager: "x"}); !apierrors.IsForbidden(err) {
		t.Errorf("the same by apply: %v", err)
	}
}

// Processes keep requests that wait in memory, so that what a request asks is bounded, in every version and in every form.
func TestE2ERequestsHaveABoundedSpec(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	kb := func(n int) string { return strings.Repeat("x", n<<10) }
	param := func(name string, v v1beta1.ParamValue) v1beta1.Param { return v1beta1.Param{Name: name, Value: v} }
	many := func(n int) (out []v1beta1.Param) {
		for i := range n {
			out = append(out, param(fmt.Sprintf("p%d", i), v1beta1.StringValue("x")))
		}
		return out
	}
	for name, tt := range map[string]struct {
		params []v1beta1.Param
		url    string
		want   string // of the refusal; empty: there is none
	}{
		"as much as there may be":  {[]v1beta1.Param{param("a", v1beta1.StringValue(kb(40))), param("b", v1beta1.ArrayValue(kb(10), kb(5))), param("c", v1beta1.ObjectValue(map[string]string{"k": kb(5)}))}, kb(3), ""},
		"one param":                {[]v1beta1.Param{param("a", v1beta1.StringValue(kb(65)))}, "", "Too long"},
		"two params":               {[]v1beta1.Param{param("a", v1beta1.StringValue(kb(40))), param("b", v1beta1.StringValue(kb(40)))}, "", "more than 65536 bytes"},
		"an array":                 {[]v1beta1.Param{param("a", v1beta1.ArrayValue(kb(40), kb(40)))}, "", "more than 65536 bytes"},
		"an object":                {[]v1beta1.Param{param("a", v1beta1.ObjectValue(map[string]string{"k": kb(40), "l": kb(40)}))}, "", "more than 65536 bytes"},
		"a param and the url":      {[]v1beta1.Param{param("a", v1beta1.StringValue(kb(40)))}, kb(40), "more than 65536 bytes"},
		"many params":              {many(129), "", "Too many"},
		"an array of many strings": {[]v1beta1.Param{param("a", v1beta1.ArrayValue(make([]string, 5000)...))}, "", "Too many"},
		"a megabyte":               {[]v1beta1.Param{param("a", v1beta1.StringValue(kb(1000)))}, "", "Too long"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(ns, "r", "unknown-kind", tt.params...)
			r.Spec.URL = tt.url
			_, err := client(t, in.config).ResolutionV1beta1().ResolutionRequests(ns).Create(t.Context(), r, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%.300v", err)
			}
		})
	}
	old := &v1alpha1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: ns, Labels: map[string]string{resolution.LabelType: "git"}}}
	old.Spec.Params = map[string]string{"a": kb(40), "b": kb(40)}
	_, err := client(t, in.config).ResolutionV1alpha1().ResolutionRequests(ns).Create(t.Context(), old, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || !strings.Contains(err.Error(), "more than 65536 bytes") {
		t.Errorf("v1alpha1: %.300v", err)
	}
}

// YAML reads a version without quotes as a number. The refusal says so in words.
func TestE2EANumberAsParameterIsRefusedInWords(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	rest := client(t, in.config).ResolutionV1beta1().RESTClient()
	for _, value := range []string{"0.9", "1", "true", `["0.9", 1]`, `{"a": 1}`} {
		body := `{"apiVersion":"resolution.tekton.dev/v1beta1","kind":"ResolutionRequest","metadata":{"name":"r","labels":{"resolution.tekton.dev/type":"hub"}},"spec":{"params":[{"name":"version","value":` + value + `}]}}`
		err := rest.Post().Namespace(ns).Resource(resource).Param("dryRun", "All").SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error()
		if err == nil || !strings.Contains(err.Error(), "quotes") || strings.Contains(err.Error(), "variables.") || strings.Contains(err.Error(), "type(") {
			t.Errorf("%s: %v", value, err)
		}
	}
}
