package clustertest

import (
	"context"
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// AwaitRights waits until the API server grants the rights that were written before. Its authorizer follows roles and bindings by four
// watches of their own, so a role and a binding of both kinds that are written now and count show that earlier ones do.
// It writes its own role and binding with random names, asks for the right until it is granted, and removes them. So
// tests may call it at the same time.
func AwaitRights(t testing.TB, kube kubernetes.Interface, namespace string) {
	t.Helper()
	ctx, rbac := t.Context(), kube.RbacV1()
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"sluice.dev"}, Resources: []string{"markers"}, Verbs: []string{"see"}}}
	meta := metav1.ObjectMeta{GenerateName: "marker-"}
	all, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	user := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: all.Name}}
	allBound, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: all.Name},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	one, err := rbac.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	oneBound, err := rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: one.Name}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: one.Name},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{all.Name, one.Name} {
		may := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: name, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "see", Group: "sluice.dev", Resource: "markers"},
		}}
		Eventually(t, "the rights to count", func(ctx context.Context) error {
			got, err := kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, may, metav1.CreateOptions{})
			if err == nil && !got.Status.Allowed {
				err = errors.New("not yet")
			}
			return err
		})
	}
	if err := errors.Join(
		rbac.RoleBindings(namespace).Delete(ctx, oneBound.Name, metav1.DeleteOptions{}), rbac.Roles(namespace).Delete(ctx, one.Name, metav1.DeleteOptions{}),
		rbac.ClusterRoleBindings().Delete(ctx, allBound.Name, metav1.DeleteOptions{}), rbac.ClusterRoles().Delete(ctx, all.Name, metav1.DeleteOptions{}),
	); err != nil {
		t.Fatal(err)
	}
}
