//go:build e2e

package features

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"sluice.dev/config"
	"sluice.dev/internal/cli"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// everything is the names of all objects of the cluster, but for those that come and go by themselves.
func (s *system) everything(t *testing.T) []string {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	fast := *s.admin
	fast.QPS = -1
	objects, err := metadata.NewForConfig(&fast)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := d.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range l.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains([]string{"Event", "EndpointSlice", "Endpoints", "Lease"}, r.Kind) {
				continue
			}
			items, err := objects.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
			for i := range items.Items {
				out = append(out, r.Kind+" "+items.Items[i].Namespace+"/"+items.Items[i].Name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// applyAll applies the manifests.
func (s *system) applyAll(t *testing.T, o config.Options) {
	t.Helper()
	manifests, err := config.Manifests(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range decoded(t, manifests) {
		if err := s.objects.ApplyObject(t.Context(), u, false); err != nil {
			t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
}

func decoded(t *testing.T, manifests []byte) []*unstructured.Unstructured {
	t.Helper()
	out, err := kube.Decode(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// uninstall runs the command as the cluster's administrator.
func (s *system) uninstall(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return run(t, s.admin, append([]string{"uninstall", "--timeout=2m"}, args...)...)
}

// run runs sluice with a kubeconfig for the cluster.
func run(t *testing.T, c *rest.Config, args ...string) (code int, out, errs string) {
	t.Helper()
	file := t.TempDir() + "/kubeconfig"
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: c.Host, CertificateAuthorityData: c.CAData, CertificateAuthority: c.CAFile}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {
			Token: c.BearerToken, ClientCertificateData: c.CertData, ClientKeyData: c.KeyData,
			ClientCertificate: c.CertFile, ClientKey: c.KeyFile, Impersonate: c.Impersonate.UserName,
		}},
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	var o, e bytes.Buffer
	code = cli.Main(append(args, "--kubeconfig="+file), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// With all roles installed, none of the webhooks answering, policies in force and a controller that still runs, a removal leaves
// no kind whose writes are refused, and nothing behind but what it names.
func TestE2EUninstall(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := clustertest.Start(t)
	bare := (&system{admin: cluster.Config()}).everything(t)

	s, err := install(ctx, cluster)
	if err != nil {
		t.Fatal(err)
	}
	s.applyAll(t, config.Options{Image: "example.test/sluice:v1", Roles: []string{"all"}, WideCredentials: true})
	controller, err := s.start(ctx, "features")
	if err != nil {
		t.Fatal(err)
	}
	c := newScene(t, s, "stays", sceneOptions{gates: []string{"TasksTimeout"}})
	c.enforced()
	eventually(t, "the gate to be closed", func(context.Context) error {
		_, err := c.try("{tasksTimeout: 1h}")
		return refused(err)
	})
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "resolution.tekton.dev/v1beta1", "kind": "ResolutionRequest",
		"metadata": map[string]any{"name": "r", "namespace": "stays", "labels": map[string]any{"resolution.tekton.dev/type": "git"}},
		"spec":     map[string]any{},
	}}
	requests := s.dynamic.Resource(schema.GroupVersionResource{Group: "resolution.tekton.dev", Version: "v1beta1", Resource: "resolutionrequests"}).Namespace("stays")
	if _, err := requests.Create(ctx, request, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	// What others have: settings, a Secret, a binding, and labels of theirs.
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "git-resolver-config"}, Data: map[string]string{"fetch-timeout": "2m"}}
	if _, err := s.kube.CoreV1().ConfigMaps(systemNamespace).Create(ctx, settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// What stands in the namespace of Sluice, but with a kind that stays, or that others usually make.
	delivery := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sluice.dev/v1alpha1", "kind": "Delivery",
		"metadata": map[string]any{"name": "d", "finalizers": []any{"sluice.dev/delivery"}}, "spec": map[string]any{"source": map[string]any{"url": "https://example.test/d.yaml"}, "serviceAccountName": "d"},
	}}
	deliveries := s.dynamic.Resource(schema.GroupVersionResource{Group: "sluice.dev", Version: "v1alpha1", Resource: "deliveries"}).Namespace(systemNamespace)
	if _, err := deliveries.Create(ctx, delivery, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "debug"}
	debug := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "debug"}, Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}},
	}}
	if _, err := s.kube.AppsV1().ReplicaSets(systemNamespace).Create(ctx, debug, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "sluice-resolver-credentials"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sluice-resolver-credentials"},
	}
	if _, err := s.kube.RbacV1().RoleBindings("stays").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stranger := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"app.kubernetes.io/part-of": "sluice"}}}
	if _, err := s.kube.CoreV1().ServiceAccounts("stays").Create(ctx, stranger, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	label := func(version string) error {
		_, err := s.dynamic.Resource(crds).Patch(ctx, "pipelines."+c.group, types.JSONPatchType,
			[]byte(`[{"op":"add","path":"/spec/names/shortNames","value":["`+version+`"]}]`), metav1.PatchOptions{})
		return err
	}
	if err := label("before"); err == nil {
		t.Error("the guard, which does not answer, lets a CRD be changed: the test shows nothing")
	}

	before := s.everything(t)
	if code, out, errs := s.uninstall(t, "--dry-run"); code != cli.ExitOK || !strings.Contains(out, "sluice-crd-guard") {
		t.Errorf("dry run: exit code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := s.uninstall(t); code != cli.ExitFailed || !strings.Contains(errs, "--yes") {
		t.Errorf("without an answer: exit code %d, %s", code, errs)
	}
	if diff := cmp.Diff(before, s.everything(t)); diff != "" {
		t.Errorf("something has changed (-before +after):\n%s", diff)
	}

	// The controller runs outside of the cluster, so that its Deployment's end does not stop it. It may lose its rights in time.
	code, out, errs := s.uninstall(t, "--yes")
	if code != cli.ExitOK && !strings.Contains(errs, "stop it") {
		t.Errorf("beside a controller: exit code %d\n%s%s", code, out, errs)
	}
	stop(t, controller)
	code, out, errs = s.uninstall(t, "--yes")
	if code != cli.ExitOK {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	for _, kept := range []string{
		"CustomResourceDefinition features.sluice.dev: ", "CustomResourceDefinition resolutionrequests.resolution.tekton.dev: ",
		"ConfigMap sluice-system/git-resolver-config: ", "Delivery sluice-system/d: ", "ReplicaSet sluice-system/debug: ",
		"RoleBinding stays/sluice-resolver-credentials: ", "ServiceAccount stays/shop: ", "Namespace sluice-system: ",
	} {
		if !strings.Contains(out, "keep    "+kept) {
			t.Errorf("%q is not told:\n%s", kept, out)
		}
	}
	free := func() {
		t.Helper()
		eventually(t, "writes to be free", func(context.Context) error {
			_, err := c.try("{tasksTimeout: 1h}")
			return errors.Join(err, label("after"))
		})
	}
	free()
	// The kind of requests stays with its object, and needs no webhook any more.
	eventually(t, "requests to be written", func(ctx context.Context) error {
		_, err := requests.Patch(ctx, "r", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		return err
	})

	// The kind of deliveries stays, for there is another one. Nobody is left who would act on the finalizer of the one in the namespace.
	other := delivery.DeepCopy()
	unstructured.RemoveNestedField(other.Object, "metadata", "finalizers")
	if _, err := s.dynamic.Resource(schema.GroupVersionResource{Group: "sluice.dev", Version: "v1alpha1", Resource: "deliveries"}).Namespace("stays").Create(ctx, other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	code, out, errs = s.uninstall(t, "--yes", "--delete-namespace")
	if code != cli.ExitOK || !strings.Contains(out, "remove  Namespace sluice-system") || !strings.Contains(out, "keep    CustomResourceDefinition deliveries.sluice.dev: ") {
		t.Fatalf("the namespace alone: exit code %d\n%s%s", code, out, errs)
	}

	code, out, errs = s.uninstall(t, "--yes", "--delete-objects", "--delete-namespace", "-o=json")
	if code != cli.ExitOK || !strings.Contains(out, `"removed"`) {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	free()
	code, out, errs = s.uninstall(t, "--yes")
	if code != cli.ExitOK || !strings.Contains(out, "not installed") {
		t.Errorf("again: exit code %d\n%s%s", code, out, errs)
	}
	var left []string
	for _, o := range s.everything(t) {
		own := strings.Contains(o, "stays") && !strings.Contains(o, "AdmissionPolicy") // the scene, without what enforces its features
		if !own && !slices.Contains(bare, o) {
			left = append(left, o)
		}
	}
	if left != nil {
		t.Errorf("left behind: %s", strings.Join(left, ", "))
	}
}
