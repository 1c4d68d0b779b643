//go:build e2e

package enforcement

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"sluice.dev/feature/policy"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

// Controllers are left out: one would check the types of each policy over and over. Pods do without the accounts that they make.
var shared = clustertest.Shared{Options: []clustertest.Option{clustertest.WithoutControllers(), clustertest.APIServerArg("disable-admission-plugins=ServiceAccount")}}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

var until = clustertest.Eventually

// server is the cluster with clients of an administrator.
type server struct {
	*testing.T
	admin   *rest.Config
	objects *kube.Client
	clients *kubernetes.Clientset
	dynamic *dynamic.DynamicClient
}

// connect makes clients, and has the API server watch ConfigMaps as parameters for as long as it runs: once the last policy with
// such a parameter is gone it stops, and does not begin anew for the next one (kubernetes/kubernetes issue 130887), so that
// tests which clean up after themselves would be in each other's way.
func connect(t *testing.T) *server {
	t.Helper()
	return connectTo(t, shared.Get(t))
}

func connectTo(t *testing.T, cluster *clustertest.Cluster) *server {
	t.Helper()
	s := &server{T: t, admin: cluster.Config()}
	s.admin.WarningHandler = rest.NoWarnings{}
	var errs [3]error
	s.objects, errs[0] = kube.New(s.admin)
	s.clients, errs[1] = kubernetes.NewForConfig(s.admin)
	s.dynamic, errs[2] = dynamic.NewForConfig(s.admin)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	set, err := policy.Compile(t.Context(), model(t, "{metadata: {name: keep}, spec: {release: v1.0.0, configMap: {namespace: default, name: none}}}",
		"[{gate: A, parts: [{group: keep.e2e.dev, resource: things, field: spec.a}]}, {gate: B, whenDisabled: Drop, parts: [{group: keep.e2e.dev, resource: things, field: spec.b}]}]"), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range set.Objects() {
		if u := s.unstructured(o); strings.HasSuffix(u.GetName(), ".anchor") {
			s.apply(u)
		}
	}
	return s
}

func (s *server) unstructured(v any) *unstructured.Unstructured {
	s.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
	if err != nil {
		s.Fatal(err)
	}
	return &unstructured.Unstructured{Object: m}
}

func (s *server) apply(u *unstructured.Unstructured) {
	s.Helper()
	if err := s.objects.ApplyObject(s.Context(), u, false); err != nil {
		s.Fatalf("the API server does not take %s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

// applyYAML applies a stream of manifests. CRDs are served when it returns.
func (s *server) applyYAML(text string) {
	s.Helper()
	dec := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := dec.Decode(&u.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			s.Fatal(err)
		}
		if u.Object == nil {
			continue
		}
		s.apply(u)
		if u.GetKind() == "CustomResourceDefinition" {
			if err := s.objects.WaitServed(s.Context(), u); err != nil {
				s.Fatal(err)
			}
		}
	}
}

// namespace makes a namespace with labels, or gives an existing one those labels.
func (s *server) namespace(name string, labels map[string]string) {
	s.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	_, err := s.clients.CoreV1().Namespaces().Create(s.Context(), ns, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = s.clients.CoreV1().Namespaces().Update(s.Context(), ns, metav1.UpdateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
}

// settings writes the ConfigMap feature-flags of a namespace.
func (s *server) settings(namespace string, data map[string]string) {
	s.Helper()
	values := map[string]any{}
	for k, v := range data {
		values[k] = v
	}
	// The guard of other settings may be in force for a moment after it was deleted.
	until(s, "the settings to be taken", func(ctx context.Context) error {
		return s.objects.ApplyObject(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "feature-flags", "namespace": namespace}, "data": values,
		}}, false)
	})
}

// enforce applies the policies of a set.
func (s *server) enforce(set *policy.Set) {
	s.Helper()
	for _, o := range set.Objects() {
		s.apply(s.unstructured(o))
	}
}

// release takes away the policies of a component, but for those that match nothing.
func (s *server) release(component string) {
	s.Helper()
	for _, resource := range []string{"validatingadmissionpolicybindings", "mutatingadmissionpolicybindings", "validatingadmissionpolicies", "mutatingadmissionpolicies"} {
		err := s.dynamic.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}).
			DeleteCollection(context.WithoutCancel(s.Context()), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: policy.ComponentLabel + "=" + component})
		if err != nil {
			s.Error(err)
		}
	}
}

// as makes a client of a kind that keeps its warnings; of an administrator if the user is empty.
func (s *server) as(user string, gvr schema.GroupVersionResource, namespace string) (dynamic.ResourceInterface, *clustertest.Warnings) {
	s.Helper()
	w := &clustertest.Warnings{}
	cfg := rest.CopyConfig(s.admin)
	cfg.WarningHandler = w
	cfg.Impersonate.UserName = user
	d, err := dynamic.NewForConfig(cfg)
	if err != nil {
		s.Fatal(err)
	}
	return d.Resource(gvr).Namespace(namespace), w
}

func read(t testing.TB, text string) map[string]any {
	t.Helper()
	u := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u.Object
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// equal compares values of JSON.
func equal(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }
