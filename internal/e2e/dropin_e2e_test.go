//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	"sluice.dev/requester"
	"sluice.dev/resolve"
	"sluice.dev/tools/bundletest"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/gittest"
)

const tektonNamespace, tektonAccount = "tekton-pipelines", "tekton-pipelines-controller"

// tekton is the client side of Tekton Pipelines: what its controllers create and read, under their account.
type tekton struct {
	*system

	config *rest.Config
	rest   rest.Interface
	runs   dynamic.NamespaceableResourceInterface
}

// standIn makes the account of Tekton's controller with the rights that Tekton gives it.
func (s *system) standIn(t *testing.T) *tekton {
	t.Helper()
	s.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+tektonNamespace+"}\n")
	c := s.as(t, tektonNamespace, tektonAccount)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "stand-in-for-tekton"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"resolution.tekton.dev"}, Resources: []string{"resolutionrequests", "resolutionrequests/status"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
		{APIGroups: []string{"tekton.dev"}, Resources: []string{"taskruns"}, Verbs: []string{"get", "list", "watch", "create", "update"}},
	}}
	if _, err := s.kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: tektonNamespace, Name: tektonAccount}},
	}
	if _, err := s.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	clustertest.AwaitRights(t, s.kube, tektonNamespace)
	d, err := dynamic.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return &tekton{s, c, client.ResolutionV1beta1().RESTClient(), d.Resource(schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "taskruns"})}
}

// submit creates the request that Tekton's client makes for a TaskRun, as it is on the wire: the fields of its types that
// are empty are there too. It returns its name.
func (k *tekton) submit(t *testing.T, ns, run, resolver string, params ...string) string {
	t.Helper()
	made, err := k.runs.Namespace(ns).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "metadata": map[string]any{"name": run},
	}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = k.runs.Namespace(ns).Get(t.Context(), run, metav1.GetOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	r := newRequest("", resolver, params...)
	name, err := requester.Name(resolver, ns+"/"+run, r.Spec)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := json.Marshal(r.Spec.Params)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"kind":"ResolutionRequest","apiVersion":"resolution.tekton.dev/v1beta1","metadata":{"name":%q,"namespace":%q,"creationTimestamp":null,`+
		`"labels":{"resolution.tekton.dev/type":%q},"ownerReferences":[{"apiVersion":"tekton.dev/v1","kind":"TaskRun","name":%q,"uid":%q,"controller":true,"blockOwnerDeletion":true}]},`+
		`"spec":{"params":%s},"status":{"data":"","source":null,"refSource":null}}`, name, ns, resolver, run, made.GetUID(), spec)
	err = k.rest.Post().Namespace(ns).Resource("resolutionrequests").Body([]byte(body)).Do(t.Context()).Error()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("%s: %v", body, err)
	}
	return name
}

// status waits until a request has ended and returns its status as it is on the wire.
func (k *tekton) status(t *testing.T, ns, name string) map[string]any {
	t.Helper()
	k.end(t, &v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	raw, err := k.rest.Get().Namespace(ns).Resource("resolutionrequests").Name(name).Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Status map[string]any `json:"status"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	// Sluice's own, which Tekton does not have; its time differs each time.
	if annotations, ok := r.Status["annotations"].(map[string]any); ok {
		delete(annotations, resolve.AnnotationLookedAt)
		delete(annotations, resolve.AnnotationRevisions)
	}
	return r.Status
}

// want is the status that Tekton's controllers expect of a request that has succeeded.
func want(data, uri, algorithm, digest, entryPoint string, annotations ...string) map[string]any {
	source := map[string]any{"uri": uri, "digest": map[string]any{algorithm: digest}}
	if entryPoint != "" {
		source["entryPoint"] = entryPoint
	}
	notes := map[string]any{"resolution.tekton.dev/content-type": "application/x-yaml"}
	for i := 0; i < len(annotations); i += 2 {
		notes["resolution.tekton.dev/"+annotations[i]] = annotations[i+1]
	}
	return map[string]any{
		"observedGeneration": 1.0, "data": base64.StdEncoding.EncodeToString([]byte(data)), "refSource": source, "source": source, "annotations": notes,
		"conditions": []any{map[string]any{"type": "Succeeded", "status": "True"}},
	}
}

func sum(data string) string {
	s := sha256.Sum256([]byte(data))
	return hex.EncodeToString(s[:])
}

// dropIn makes the requests that Tekton's controllers make for each resolver, and compares what they get back.
func (k *tekton) dropIn(t *testing.T) {
	ns := k.namespace(t)
	repos := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, repos.Root, "catalog.git", map[string]string{"task/build.yaml": taskText})
	commit := gittest.Run(t, o.Dir, nil, "rev-parse", "main")
	url := repos.URL + "/catalog.git"
	provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RequestURI() {
		case "/api/v3/repos/team/catalog/commits/main":
			_, _ = fmt.Fprintf(w, `{"sha":%q}`, commit)
		case "/api/v3/repos/team/catalog/contents/task/build.yaml?ref=" + commit:
			_, _ = w.Write([]byte(taskText))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(provider.Close)
	reg := images(t)
	digest := push(t, reg, "team/bundle", bundletest.Task("build", taskText))
	files := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(taskText)) }))
	t.Cleanup(files.Close)
	page := map[string]any{"data": map[string]any{"manifestRaw": taskText}}
	hubs := hub(t, map[string]any{
		"/api/v1/packages/tekton-task/tekton-catalog-tasks/build/0.2.0": page,
		"/api/v1/packages/tekton-task/tekton-catalog-tasks/build":       map[string]any{"available_versions": []any{map[string]any{"version": "0.2.0"}, map[string]any{"version": "0.1.0"}}},
		"/v1/resource/Tekton/task/build/0.2/yaml":                       map[string]any{"data": map[string]any{"yaml": taskText}},
	})
	k.apply(t, strings.Replace(taskText, "  name: build", "  name: build\n  namespace: "+ns, 1))
	task, err := dynamic.NewForConfigOrDie(k.admin).Resource(schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "tasks"}).
		Namespace(ns).Get(t.Context(), "build", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k.configure(t, "config-defaults", map[string]string{"default-maximum-resolution-timeout": "40s"})
	k.configure(t, "git-resolver-config", map[string]string{
		"allowed-addresses": "127.0.0.1", "ca-bundle": gittest.PEM(provider.Certificate().Raw), "server-url": provider.URL, "scm-type": "github", "default-org": "team",
		"default-revision": "main", "fetch-timeout": "1m",
	})
	k.configure(t, "bundleresolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "plain-http-registries": reg, "default-kind": "task", "default-service-account": "default"})
	k.configure(t, "http-resolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "ca-bundle": gittest.PEM(files.Certificate().Raw), "fetch-timeout": "1m"})
	k.configure(t, "hubresolver-config", map[string]string{
		"allowed-addresses": "127.0.0.1", "allow-plain-http": "true", "artifact-hub-urls": "- " + hubs.URL, "tekton-hub-urls": "- " + hubs.URL, "default-type": "artifact",
		"default-tekton-hub-catalog": "Tekton", "default-artifact-hub-task-catalog": "tekton-catalog-tasks",
	})
	k.configure(t, "cluster-resolver-config", map[string]string{"default-kind": "task", "default-namespace": ns, "allowed-namespaces": "", "blocked-namespaces": ""})
	k.configure(t, "resolvers-feature-flags", map[string]string{"enable-git-resolver": "true", "enable-hub-resolver": "true"})
	k.startAll(t, allRoles[1:]...)

	plain := map[string]string{"commit": commit, "content-type": "application/x-yaml"}
	inBundle := []string{"dev.tekton.image.kind", "task", "dev.tekton.image.name", "build", "dev.tekton.image.apiVersion", "v1"}
	cases := []struct {
		name, resolver string
		params         []string
		want           map[string]any
		// more are annotations of ours that Tekton does not look at: those of TEP-0060.
		more map[string]string
	}{
		{
			"git, clone", "git",
			[]string{"url", url, "revision", "main", "pathInRepo", "task/build.yaml"},
			want(taskText, "git+"+url, "sha1", commit, "task/build.yaml", "revision", commit, "path", "task/build.yaml", "url", url), plain,
		},
		{
			"git, API", "git",
			[]string{"org", "team", "repo", "catalog", "revision", "main", "pathInRepo", "task/build.yaml"},
			want(taskText, "git+"+provider.URL+"/team/catalog.git", "sha1", commit, "task/build.yaml", "revision", commit, "path", "task/build.yaml", "org", "team", "repo", "catalog",
				"url", provider.URL+"/team/catalog.git"), plain,
		},
		{
			"git, defaults", "git",
			[]string{"repo", "catalog", "pathInRepo", "task/build.yaml"},
			want(taskText, "git+"+provider.URL+"/team/catalog.git", "sha1", commit, "task/build.yaml", "revision", commit, "path", "task/build.yaml", "org", "team", "repo", "catalog",
				"url", provider.URL+"/team/catalog.git"), plain,
		},
		{
			"bundles", "bundles",
			[]string{"bundle", reg + "/team/bundle:v1", "name", "build", "kind", "task"},
			want(taskText, reg+"/team/bundle", "sha256", strings.TrimPrefix(digest, "sha256:"), "build", inBundle...),
			map[string]string{"digest": digest, "content-type": "application/x-yaml"},
		},
		{
			"cluster", "cluster",
			[]string{"kind", "task", "name", "build", "namespace", ns},
			nil,
			map[string]string{"content-type": "application/x-yaml"},
		},
		{"http", "http", []string{"url", files.URL + "/build.yaml"}, want(taskText, files.URL+"/build.yaml", "sha256", sum(taskText), ""), nil},
		{
			"hub, a version", "hub",
			[]string{"name", "build", "version", "0.2", "kind", "task", "catalog", "tekton-catalog-tasks", "type", "artifact"},
			want(taskText, hubs.URL+"/api/v1/packages/tekton-task/tekton-catalog-tasks/build/0.2.0", "sha256", sum(taskText), ""), nil,
		},
		{
			"hub, a constraint", "hub",
			[]string{"name", "build", "version", ">= 0.1.0"},
			want(taskText, hubs.URL+"/api/v1/packages/tekton-task/tekton-catalog-tasks/build/0.2.0", "sha256", sum(taskText), ""), nil,
		},
		{
			"hub, Tekton Hub", "hub",
			[]string{"name", "build", "version", "0.2", "type", "tekton"},
			want(taskText, hubs.URL+"/v1/resource/Tekton/task/build/0.2/yaml", "sha256", sum(taskText), ""), nil,
		},
	}
	names := make([]string, len(cases))
	for i, c := range cases {
		names[i] = k.submit(t, ns, fmt.Sprint("run-", i), c.resolver, c.params...)
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := k.status(t, ns, names[i])
			if conditions, ok := got["conditions"].([]any); ok && len(conditions) == 1 {
				condition, _ := conditions[0].(map[string]any)
				if condition["lastTransitionTime"] == nil {
					t.Error("the condition has no time")
				}
				delete(condition, "lastTransitionTime")
			}
			annotations, _ := got["annotations"].(map[string]any)
			for key, v := range c.more {
				if annotations[key] != v {
					t.Errorf("annotation %s is %v, want %s", key, annotations[key], v)
				}
				delete(annotations, key)
			}
			if c.resolver == "cluster" {
				// The object as it is in the cluster, with its namespace: the digest is that of the spec.
				data, err := base64.StdEncoding.DecodeString(fmt.Sprint(got["data"]))
				if err != nil || !strings.Contains(string(data), "kind: Task\nmetadata:\n  name: build\n") {
					t.Errorf("content %q, %v", data, err)
				}
				uri := fmt.Sprintf("/apis/tekton.dev/v1/namespaces/%s/task/build@%s", ns, task.GetUID())
				c.want = want(string(data), uri, "sha256", sum(`{"steps":[{"image":"busybox"}]}`), "", "name", "build", "namespace", ns)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}

	t.Run("cached", func(t *testing.T) {
		var operations []string
		for i := range 2 {
			name := k.submit(t, ns, fmt.Sprint("cached-", i), "git", "url", url, "revision", commit, "pathInRepo", "task/build.yaml")
			annotations, _ := k.status(t, ns, name)["annotations"].(map[string]any)
			operations = append(operations, fmt.Sprint(annotations["resolution.tekton.dev/cache-operation"]))
			if annotations["resolution.tekton.dev/cached"] != "true" || annotations["resolution.tekton.dev/cache-resolver-type"] != "git" || annotations["resolution.tekton.dev/cache-timestamp"] == nil {
				t.Errorf("annotations %v", annotations)
			}
		}
		if !slices.Equal(operations, []string{"store", "retrieve"}) {
			t.Errorf("operations %q", operations)
		}
	})

	t.Run("failed", func(t *testing.T) {
		name := k.submit(t, ns, "failed", "git", "url", url, "revision", "main", "pathInRepo", "none.yaml")
		got := k.status(t, ns, name)
		condition, _ := got["conditions"].([]any)[0].(map[string]any)
		if data := got["data"]; condition["status"] != "False" || condition["reason"] != "ResolutionFailed" || condition["message"] == nil || data != nil && data != "" {
			t.Errorf("status %v", got)
		}
	})

	t.Run("a wave", func(t *testing.T) {
		wave := k.namespace(t)
		const n = 60
		for i := range n {
			k.submit(t, wave, fmt.Sprint("run-", i), "git", "url", url, "revision", "main", "pathInRepo", "task/build.yaml", "cache", "never")
		}
		for _, r := range k.ended(t, wave, n) {
			wantContent(t, r, taskText)
		}
	})
}

func TestE2ETektonsRequestsAlone(t *testing.T) {
	s := standsAlone(t)
	s.tektonCRDs(t)
	s.start(t, "resolution")
	s.standIn(t).dropIn(t)
}
