//go:build e2e

package features

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/config"
	"sluice.dev/internal/installation"
	"sluice.dev/tools/clustertest"
)

// Wide credentials end with the manifests that do not have them, by whichever way these are applied or deleted.
func TestE2EWideCredentialsEnd(t *testing.T) {
	t.Parallel()
	cluster := clustertest.Start(t)
	kubectl := func(stdin string, args ...string) string {
		t.Helper()
		out, errs, err := cluster.Kubectl(t, stdin, args...)
		if err != nil && !slices.Contains(args, "can-i") {
			t.Fatalf("kubectl %v: %v: %s", args, err, errs)
		}
		return out
	}
	manifests := func(wide bool) string {
		data, err := config.Manifests(config.Options{Image: "example.test/sluice:v1", WideCredentials: wide})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	reads := func() bool {
		return strings.HasPrefix(kubectl("", "auth", "can-i", "get", "secrets", "-n", "kube-system", "--as=system:serviceaccount:sluice-system:sluice-resolver-git"), "yes")
	}
	warned := func() bool {
		checks, _ := doctor(t, cluster.Config())
		return slices.ContainsFunc(checks, func(c installation.Check) bool {
			return c.State == installation.Warn && strings.Contains(c.Message, "may read the Secrets of all namespaces")
		})
	}
	for name, apply := range map[string][]string{"server-side": {"apply", "--server-side", "-f", "-"}, "client-side": {"apply", "-f", "-"}} {
		t.Run(name, func(t *testing.T) {
			kubectl(manifests(true), apply...)
			if !reads() || warned() {
				t.Errorf("wide: it reads Secrets: %v, doctor warns: %v", reads(), warned())
			}
			kubectl(manifests(false), apply...)
			if reads() || warned() {
				t.Errorf("narrow over wide: it reads Secrets: %v, doctor warns: %v", reads(), warned())
			}
			kubectl(manifests(true), apply...)
			kubectl(withoutNamespace(manifests(false)), "delete", "-f", "-")
		})
	}
	kubectl(manifests(false), "apply", "-f", "-")
	if reads() || warned() {
		t.Errorf("after a deletion: it reads Secrets: %v, doctor warns: %v", reads(), warned())
	}
	// What an earlier version or a user has left is named.
	s := &system{cluster: cluster, admin: cluster.Config()}
	kube, err := kubernetes.NewForConfig(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	old := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "left"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sluice-resolver-credentials"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "sluice-system", Name: "sluice-resolver-git"}},
	}
	if _, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !warned() {
		t.Error("doctor does not warn of a binding that was left")
	}
	if _, out, errs := s.uninstall(t, "--dry-run"); !strings.Contains(out, "keep    ClusterRoleBinding left: a user has made it") || !strings.Contains(out, "remove  ClusterRoleBinding sluice-resolver-git-credentials") {
		t.Errorf("uninstall: %s%s", out, errs)
	}
}

// withoutNamespace leaves out the namespace, whose deletion takes long.
func withoutNamespace(manifests string) string {
	docs := slices.DeleteFunc(strings.Split(manifests, "\n---\n"), func(doc string) bool { return strings.Contains(doc, "\nkind: Namespace\n") })
	return strings.Join(docs, "\n---\n")
}
