//go:build e2e

package cluster

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/resolve"
	"sluice.dev/tools/clustertest"
)

var shared clustertest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

const (
	e2eNamespace = "resolve-cluster"
	resolverUser = "system:serviceaccount:resolve-cluster:resolver"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// prepare installs the kind Task in two versions, a Task, and a ServiceAccount with the rights that NewClient names and
// no others. It returns a client of that ServiceAccount.
func prepare(t *testing.T) Client {
	t.Helper()
	ctx := t.Context()
	admin := shared.Get(t).Config()
	kube, err := kubernetes.NewForConfig(admin)
	must(t, err)
	_, err = kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e2eNamespace}}, metav1.CreateOptions{})
	must(t, err)
	_, err = kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "resolve-cluster"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"tekton.dev"}, Resources: []string{"tasks"}, Verbs: []string{"get"}},
			{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "resolve-cluster"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "resolve-cluster"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e2eNamespace, Name: "resolver"}},
	}, metav1.CreateOptions{})
	must(t, err)
	// Any ServiceAccount of the namespace may read tasks there, by its group.
	_, err = kube.RbacV1().RoleBindings(e2eNamespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "resolve-cluster"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts:" + e2eNamespace}},
	}, metav1.CreateOptions{})
	must(t, err)
	installTask(t, admin)
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: resolverUser, Groups: groupsOf(resolverUser)}
	c, err := NewClient(config, systemClock{})
	must(t, err)
	return c
}

func installTask(t *testing.T, admin *rest.Config) {
	t.Helper()
	ctx := t.Context()
	ext, err := apiextensions.NewForConfig(admin)
	must(t, err)
	keep := true
	version := func(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: storage,
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: &keep,
			}},
		}
	}
	_, err = ext.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "tasks.tekton.dev"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "tekton.dev", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "tasks", Singular: "task", Kind: "Task", ListKind: "TaskList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1beta1", false), version("v1", true)},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	dyn, err := dynamic.NewForConfig(admin)
	must(t, err)
	tasks := dyn.Resource(schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "tasks"}).Namespace(e2eNamespace)
	task := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tekton.dev/v1", "kind": "Task",
		"metadata": map[string]any{"name": "build", "labels": map[string]any{"app": "x"}},
		"spec":     map[string]any{"steps": []any{map[string]any{"image": "busybox"}}},
	}}
	// The API server serves a new kind shortly after its definition is there.
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, err := tasks.Create(ctx, task, metav1.CreateOptions{})
		if !apierrors.IsNotFound(err) {
			must(t, err)
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("tasks.tekton.dev is not served")
		}
	}
}

func TestE2EResolveReadsFromARealAPIServer(t *testing.T) {
	r := New(prepare(t))
	for _, tt := range []struct {
		name     string
		config   resolve.Config
		params   []string
		identity string
		want     resolve.Reason
		uri      string
	}{
		{"a task, in the preferred version", nil, nil, "", "", "/apis/tekton.dev/v1/namespaces/resolve-cluster/task/build@"},
		{"as TEP-0060 has it", nil, []string{ParamKind, "Task"}, "", "", "/apis/tekton.dev/v1/namespaces/resolve-cluster/task/build@"},
		{"in an older version", nil, []string{ParamAPIVersion, "tekton.dev/v1beta1"}, "", "", "/apis/tekton.dev/v1beta1/namespaces/resolve-cluster/task/build@"},
		{"in a version that is not served", nil, []string{ParamAPIVersion, "tekton.dev/v7"}, "", resolve.ReasonNotFound, ""},
		{"a kind that is not there", nil, []string{ParamKind, "pipeline"}, "", resolve.ReasonNotFound, ""},
		{"a group that is not there", resolve.Config{KeyAllowedKinds: "widget.none.dev"}, []string{ParamKind, "widget"}, "", resolve.ReasonNotFound, ""},
		{"an object that is not there", nil, []string{ParamName, "none"}, "", resolve.ReasonNotFound, ""},
		{"without the right to read it", resolve.Config{KeyAllowedKinds: "configmap"}, []string{ParamKind, "configmap", ParamName, "kube-root-ca.crt"}, "", resolve.ReasonDenied, ""},
		{"on behalf of one who may, by a group", resolve.Config{KeyCheckAccess: "true"}, nil, "system:serviceaccount:resolve-cluster:builder", "", "/apis/tekton.dev/v1/namespaces/resolve-cluster/task/build@"},
		{"on behalf of one who may not", resolve.Config{KeyCheckAccess: "true"}, nil, "system:serviceaccount:default:builder", resolve.ReasonDenied, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := request(tt.config, append([]string{ParamName, "build"}, tt.params...)...)
			req.Namespace, req.Identity = e2eNamespace, tt.identity
			res, err := r.Resolve(t.Context(), req)
			if got := reason(t, err); got != tt.want {
				t.Fatalf("reason %q, want %q: %v", got, tt.want, err)
			}
			if err != nil {
				return
			}
			if len(res.Source.URI) <= len(tt.uri) || res.Source.URI[:len(tt.uri)] != tt.uri {
				t.Errorf("URI %q, want %q and the UID", res.Source.URI, tt.uri)
			}
			want := "apiVersion: tekton.dev/v1\nkind: Task\nmetadata:\n  labels:\n    app: x\n  name: build\n  namespace: resolve-cluster\nspec:\n  steps:\n  - image: busybox\n"
			if len(tt.params) == 2 && tt.params[0] == ParamAPIVersion {
				want = "apiVersion: tekton.dev/v1beta1" + want[len("apiVersion: tekton.dev/v1"):]
			}
			if diff := cmp.Diff(want, string(res.Data)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
