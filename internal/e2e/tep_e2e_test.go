//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1alpha1"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/requester"
	"sluice.dev/tools/bundletest"
	"sluice.dev/tools/gittest"
)

// tepPipeline is the content that TEP-0060 shows in the status of a request.
const tepPipeline = `kind: Pipeline
apiVersion: tekton.dev/v1beta1
metadata:
  name: p
spec:
  tasks:
  - name: fetch-from-git
    taskSpec:
      steps:
      - image: alpine/git
        script: |
          git clone https://github.com/tektoncd/results
`

// The examples of TEP-0060 as they are written there but for hosts: v1alpha1, the older label, the older names of
// resolvers and parameters.
func TestE2EExamplesOfTEP0060(t *testing.T) {
	s := standsAlone(t)
	s.tektonCRDs(t)
	ns := s.namespace(t)
	repos := gittest.NewServer(t, false)
	gittest.NewOrigin(t, repos.Root, "catalog.git", map[string]string{"task/golang-fuzz/0.1/golang-fuzz.yaml": taskText})
	o := gittest.NewOrigin(t, repos.Root, "experimental.git", map[string]string{"remote-resolution/pipeline.yaml": tepPipeline})
	commit := o.Commit("remote-resolution", map[string]string{"remote-resolution/pipeline.yaml": tepPipeline})
	reg := images(t)
	const path = "tekton-releases/catalog/upstream/golang-fuzz"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, name := range []string{path, path + "-signed"} {
		r, err := bundletest.NewRegistry(reg, name, http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		var digest v1.Hash
		if digest, err = r.Push(t.Context(), "0.1", bundletest.Task("golang-fuzz", taskText)); err != nil {
			t.Fatal(err)
		}
		digests[name] = digest.String()
		if strings.HasSuffix(name, "-signed") {
			if err := r.Sign(t.Context(), digest, digest, key); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, kind := range []string{"Task", "Pipeline"} {
		s.apply(t, fmt.Sprintf("apiVersion: tekton.dev/v1\nkind: %s\nmetadata: {name: foo, namespace: %s}\nspec: {description: ours}\n", kind, ns))
	}
	s.apply(t, "apiVersion: tekton.dev/v1\nkind: ClusterTask\nmetadata: {name: foo}\nspec: {description: ours}\n")
	s.configure(t, "git-resolver-config", loopback)
	s.configure(t, "bundleresolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "plain-http-registries": reg})
	s.configure(t, "cluster-resolver-config", map[string]string{"allowed-kinds": "task.tekton.dev, pipeline.tekton.dev, clustertask.tekton.dev"})
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	s.configure(t, "resolver-verification-config", map[string]string{"policies": fmt.Sprintf(`
apiVersion: tekton.dev/v1alpha1
kind: VerificationPolicy
metadata: {name: bundles}
spec:
  mode: warn
  form: cosign
  resources: [{pattern: '.*/golang-fuzz.*'}]
  authorities: [{name: k, key: {data: %q}}]
`, text)})
	s.startAll(t, "resolution", "resolver-git", "resolver-bundles", "resolver-cluster")

	kinds := s.standIn(t)
	kinds.submit(t, ns, "my-tr", "nobody", "x", "y")
	owner, err := kinds.runs.Namespace(ns).Get(t.Context(), "my-tr", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	example := func(resolver, name, params string) string {
		return fmt.Sprintf(`
apiVersion: resolution.tekton.dev/v1alpha1
kind: ResolutionRequest
metadata:
  name: %s
  namespace: %s
  labels:
    resolution.tekton.dev/resolver: %s
  ownerReferences:
  - apiVersion: tekton.dev/v1beta1
    controller: true
    kind: TaskRun
    name: my-tr
    uid: %s
spec:
  params:
    %s
`, name, ns, resolver, owner.GetUID(), strings.ReplaceAll(params, "\n", "\n    "))
	}
	requests := s.client.ResolutionV1alpha1().ResolutionRequests(ns)
	submit := func(t *testing.T, text string) *v1alpha1.ResolutionRequest {
		t.Helper()
		r := &v1alpha1.ResolutionRequest{}
		if err := yaml.UnmarshalStrict([]byte(text), r); err != nil {
			t.Fatal(err)
		}
		if _, err := requests.Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var got *v1alpha1.ResolutionRequest
		eventually(t, r.Name+" to end", func(ctx context.Context) (err error) {
			if got, err = requests.Get(ctx, r.Name, metav1.GetOptions{}); err == nil && !got.Status.Finished() {
				err = errors.New("it is in progress")
			}
			return err
		})
		return got
	}
	inCluster := func(kind, where string) string {
		return "apiVersion: tekton.dev/v1\nkind: " + kind + "\nmetadata:\n  name: foo\n" + where + "spec:\n  description: ours\n"
	}
	for _, e := range []struct {
		name, resolver, params string
		want                   string            // the content, or nothing for a failure
		notes                  map[string]string // annotations of the status
		reason                 string
	}{
		{
			"get-task-from-bundle-12345", "bundle", "image_url: " + reg + "/" + path + ":0.1\nname: golang-fuzz", taskText,
			map[string]string{"digest": digests[path], "content-type": "application/x-yaml"},
			"",
		},
		{
			"get-signed-task-from-bundle", "bundle", "image_url: " + reg + "/" + path + "-signed:0.1\nname: golang-fuzz\nsigner: cosign", taskText,
			map[string]string{"digest": digests[path+"-signed"]},
			"",
		},
		{"get-unsigned-task-from-bundle", "bundle", "image_url: " + reg + "/" + path + ":0.1\nname: golang-fuzz\nsigner: cosign", "", nil, "VerificationFailed"},
		{
			"get-task-from-git-12345", "git", "repository_url: " + repos.URL + "/catalog.git\nbranch: main\npath: /task/golang-fuzz/0.1/golang-fuzz.yaml", taskText,
			map[string]string{"content-type": "application/x-yaml"},
			"",
		},
		{
			"get-pipeline-from-git-12345", "git", "repository_url: " + repos.URL + "/experimental.git\ncommit: " + commit + "\npath: /remote-resolution/pipeline.yaml", tepPipeline,
			map[string]string{"commit": commit, "content-type": "application/x-yaml"},
			"",
		},
		{
			"get-pipeline-from-branch", "git", "repository_url: " + repos.URL + "/experimental.git\nbranch: remote-resolution\npath: /remote-resolution/pipeline.yaml", tepPipeline,
			map[string]string{"commit": commit, "content-type": "application/x-yaml"},
			"",
		},
		{
			"get-invalid-pipeline-from-git", "git", "repository_url: " + repos.URL + "/experimental.git\nbranch: remote-resolution\npath: /remote-resolution/invalid-pipeline.yaml",
			"", nil, "NotFound",
		},
		{
			"branch-and-commit", "git", "repository_url: " + repos.URL + "/catalog.git\nbranch: main\ncommit: " + commit + "\npath: /task/golang-fuzz/0.1/golang-fuzz.yaml",
			"", nil, "InvalidParams",
		},
		{"in-cluster-task", "in-cluster", "kind: Task\nname: foo", inCluster("Task", "  namespace: "+ns+"\n"), nil, ""},
		{"in-cluster-pipeline", "in-cluster", "kind: Pipeline\nname: foo", inCluster("Pipeline", "  namespace: "+ns+"\n"), nil, ""},
		{"in-cluster-clustertask", "in-cluster", "kind: ClusterTask\nname: foo", inCluster("ClusterTask", ""), nil, ""},
	} {
		t.Run(e.name, func(t *testing.T) {
			got := submit(t, example(e.resolver, e.name, e.params))
			same := &v1beta1.ResolutionRequest{ObjectMeta: got.ObjectMeta, Status: got.Status}
			if e.want == "" {
				wantFailure(t, same, e.reason, "")
				return
			}
			wantContent(t, same, e.want)
			for key, v := range e.notes {
				if got.Status.Annotations[key] != v {
					t.Errorf("annotation %s is %q, want %q", key, got.Status.Annotations[key], v)
				}
			}
		})
	}
	// The text that the TEP has in its status.
	const shown = "a2luZDogUGlwZWxpbmUKYXBpVmVyc2lvbjogdGVrdG9uLmRldi92MWJldGExCm1ldGFkYXRhOgogIG5hbWU6IHAKc3BlYzoKICB0YXNrczoKICAtIG5hbWU6IGZldGNoLWZyb20tZ2l0CiAgICB0YXNrU3BlYzoKICAgICAgc3RlcHM6CiAgICAgIC0gaW1hZ2U6IGFscGluZS9naXQKICAgICAgICBzY3JpcHQ6IHwKICAgICAgICAgIGdpdCBjbG9uZSBodHRwczovL2dpdGh1Yi5jb20vdGVrdG9uY2QvcmVzdWx0cwo="
	if data := base64.StdEncoding.EncodeToString([]byte(tepPipeline)); data != shown {
		t.Errorf("the content is %s", data)
	}

	t.Run("without a label", func(t *testing.T) {
		r := &v1alpha1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{Name: "unlabelled"}, Spec: v1alpha1.ResolutionRequestSpec{Params: map[string]string{"name": "foo"}}}
		if _, err := requests.Create(t.Context(), r, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "no resolver is named") {
			t.Errorf("error %v", err)
		}
	})

	t.Run("the taskRef of a TaskRun", func(t *testing.T) {
		var run struct {
			Spec struct {
				TaskRef requester.Ref `json:"taskRef"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(`
kind: TaskRun
metadata:
  name: my-tr
spec:
  taskRef:
    resolver: git
    resource:
      repository_url: `+repos.URL+`/catalog.git
      branch: main
      path: /task/golang-fuzz/0.1/golang-fuzz.yaml
`), &run); err != nil {
			t.Fatal(err)
		}
		spec, err := run.Spec.TaskRef.Spec()
		if err != nil {
			t.Fatal(err)
		}
		r := newRequest("from-ref", run.Spec.TaskRef.Resolver)
		r.Spec = spec
		wantContent(t, s.resolve(t, ns, r), taskText)
	})
}

// kubectl get shows the resolver of a request by either label.
func TestE2EKubectlShowsTheResolverByEitherLabel(t *testing.T) {
	s := standsAlone(t)
	ns := s.namespace(t)
	older := newRequest("older", "")
	older.Labels = map[string]string{resolution.LabelResolver: "by-older"}
	s.create(t, ns, newRequest("newer", "by-type"), older)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		if version == "v1alpha1" {
			s.start(t, "resolution") // it converts
		}
		eventually(t, "the table of "+version, func(ctx context.Context) error {
			out, errs, err := s.cluster.Kubectl(t, "", "get", "resolutionrequests."+version+".resolution.tekton.dev", "-n", ns)
			if err == nil && (!strings.Contains(out, "by-type") || !strings.Contains(out, "by-older")) {
				err = fmt.Errorf("%s%s", out, errs)
			}
			return err
		})
	}
}
