//go:build e2e

package cli

import (
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/tools/bundletest"
)

func comesFromRegistries(t *testing.T, d *deliveryWorld, host string) {
	d.grant("all", rule("", "configmaps"))
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write([]byte(configMap("by-http", "k", "1"))); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(files.Close)
	file := func(name, text string) bundletest.File { return bundletest.File{Name: name, Data: []byte(text)} }
	tarOf := func(prefix string) []byte {
		return bundletest.Tar(file("deploy/b.yaml", configMap(prefix+"-b")), file("README.md", "words"), file("deploy/a.yaml", configMap(prefix+"-a", "k", "1")))
	}
	plain := map[string]string{}
	for name, layers := range map[string][]bundletest.Layer{
		"bundle":  {bundletest.Task("a", configMap("bundle-a", "k", "1")), bundletest.Task("b", configMap("bundle-b"))},
		"flux":    {{Annotations: plain, MediaType: "application/vnd.cncf.flux.content.v1.tar+gzip", Blob: bundletest.Gzip(tarOf("flux"))}},
		"tarball": {{Annotations: plain, Blob: tarOf("tarball")}},
	} {
		r, err := bundletest.NewRegistry(host, "team/"+name, http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := r.Push(t.Context(), "v1", layers...)
		if err != nil {
			t.Fatal(err)
		}
		url := "oci://" + host + "/team/" + name + ":v1"
		d.create(name, func(s *v1alpha1.DeliverySpec) { s.Source.URL = url })
		o := d.applies(name, digest.String())
		d.holds(name+"-a", "k", "1")
		d.holds(name+"-b", "always", "same")
		if o.Status.Inventory.Objects != 2 || o.Status.Applied.URI != host+"/team/"+name {
			t.Errorf("%s: %+v", name, o.Status)
		}
	}
	// The tag moves on.
	r, err := bundletest.NewRegistry(host, "team/flux", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := r.Push(t.Context(), "v1", bundletest.Layer{Annotations: plain, Blob: bundletest.Tar(file("a.yaml", configMap("flux-a", "k", "2")))})
	if err != nil {
		t.Fatal(err)
	}
	d.applies("flux", digest.String())
	d.holds("flux-a", "k", "2")

	d.create("by-http", func(s *v1alpha1.DeliverySpec) { s.Source.URL = files.URL + "/all.yaml" })
	d.reaches("by-http", v1alpha1.ReasonDelivered, nil)
	d.holds("by-http", "k", "1")
}

// readsTheClusterAsItsAccount: what its ServiceAccount may read, where the operator has access checked.
func readsTheClusterAsItsAccount(t *testing.T, d *deliveryWorld) {
	// The resolver itself may read more.
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: d.namespace + "-resolver"}, Rules: []rbacv1.PolicyRule{rule("", "configmaps")}}
	if _, err := d.kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := d.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "sluice-system", Name: "sluice-resolver-cluster"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	source := d.namespace + "-source"
	if _, err := d.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: source}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"k": "1"}}
	if _, err := d.kube.CoreV1().ConfigMaps(source).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.create("x", func(s *v1alpha1.DeliverySpec) {
		s.Source = v1alpha1.DeliverySource{Resolver: "cluster"}
		for name, value := range map[string]string{"kind": "configmap", "name": "kept", "namespace": source} {
			s.Source.Params = append(s.Source.Params, v1beta1.Param{Name: name, Value: v1beta1.StringValue(value)})
		}
	})
	d.reaches("x", v1alpha1.ReasonResolutionFailed, says("system:serviceaccount:"+d.namespace+":deployer may not read ConfigMap", "kept"))
	d.grant("all", rule("", "configmaps"))
	d.reaches("x", v1alpha1.ReasonDelivered, nil)
	// It delivers what it has read to where it has read it, where it keeps it as it is.
	got, err := d.kube.CoreV1().ConfigMaps(source).Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || got.Data["k"] != "1" || got.Annotations["sluice.dev/app"] != d.namespace+"/x" {
		t.Errorf("%v, %v", got, err)
	}
	// The account loses the right.
	binding := d.namespace + "-all"
	if err := d.kube.RbacV1().ClusterRoleBindings().Delete(t.Context(), binding, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.reaches("x", v1alpha1.ReasonResolutionFailed, says("may not read"))
}
