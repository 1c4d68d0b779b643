package installation

import (
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
)

// Resolvers read Secrets where a RoleBinding of the ClusterRole sluice-resolver-credentials allows it. A ClusterRoleBinding of the
// same role allows it everywhere, which only some installations ask for. A removal leaves the bindings that users have made, and the
// doctor tells of a wide one that no manifest asks for.

// wideCredentials is the annotation of a Deployment whose manifests let it read the Secrets of all namespaces.
const wideCredentials = "sluice.dev/wide-credentials" //nolint:gosec // the name of an annotation

// boundCredentials is a binding of the ClusterRole by which resolvers read Secrets.
type boundCredentials struct {
	Object
	labels   map[string]string
	subjects []rbacv1.Subject
}

// credentialBindings lists all bindings of the ClusterRole credentials: those of the manifests and those of users.
func (c *Cluster) credentialBindings(ctx context.Context) ([]boundCredentials, error) {
	var out []boundCredentials
	add := func(o *metav1.ObjectMeta, kind string, to rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if to.Kind != "ClusterRole" || to.Name != credentials {
			return
		}
		resource := schema.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: strings.ToLower(kind) + "s"}
		b := objectOf(&metav1.PartialObjectMetadata{ObjectMeta: *o}, kind, resource)
		out = append(out, boundCredentials{b, o.Labels, subjects})
	}
	rbac := c.kube.RbacV1()
	for _, list := range []pager.ListPageFunc{
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return rbac.RoleBindings(metav1.NamespaceAll).List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return rbac.ClusterRoleBindings().List(ctx, o)
		},
	} {
		err := pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
			switch b := o.(type) {
			case *rbacv1.RoleBinding:
				add(&b.ObjectMeta, "RoleBinding", b.RoleRef, b.Subjects)
			case *rbacv1.ClusterRoleBinding:
				add(&b.ObjectMeta, "ClusterRoleBinding", b.RoleRef, b.Subjects)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("cannot list the bindings of the ClusterRole %s: %w", credentials, err)
		}
	}
	return out, nil
}

// checkCredentials looks for accounts that read the Secrets of all namespaces though the manifests do not say so.
//
// A binding that only has accounts of roles which were installed so is fine. Any other subject is told of, with the command that
// removes the binding.
func (d *doctor) checkCredentials(ctx context.Context) error {
	bindings, err := d.credentialBindings(ctx)
	if err != nil {
		return d.noteUnread("bindings of "+credentials, err)
	}
	wide := d.wideAccounts()
	for _, b := range bindings {
		if b.Kind != "ClusterRoleBinding" || len(b.subjects) == 0 {
			continue
		}
		var meant, unmeant []string
		for _, s := range b.subjects {
			name := strings.TrimPrefix(s.Namespace+"/"+s.Name, "/")
			if s.Kind == rbacv1.ServiceAccountKind && wide[name] {
				meant = append(meant, name)
			} else {
				unmeant = append(unmeant, s.Kind+" "+name)
			}
		}
		if len(unmeant) == 0 {
			d.addCheck(OK, b.String(), "", "%s may read the Secrets of all namespaces, as installed with wide credentials", strings.Join(meant, ", "))
			continue
		}
		d.addCheck(Warn, b.String(), "kubectl delete clusterrolebinding "+b.Name,
			"%s may read the Secrets of all namespaces, and the manifests that run do not ask for it; an earlier installation may have left it behind", strings.Join(unmeant, ", "))
	}
	return nil
}

// wideAccounts has the accounts of the Deployments that were installed with wide credentials, as NAMESPACE/NAME.
func (d *doctor) wideAccounts() map[string]bool {
	out := map[string]bool{}
	for _, p := range d.deployments {
		if p.Annotations[wideCredentials] == "true" {
			out[p.Namespace+"/"+p.Spec.Template.Spec.ServiceAccountName] = true
		}
	}
	return out
}
