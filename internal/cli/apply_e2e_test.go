//go:build e2e

package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/internal/cli/apply"
	"sluice.dev/tools/clustertest"
)

// world is a cluster with a namespace for one test.
type world struct {
	*clustertest.Cluster

	t         *testing.T
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	namespace string
	dir       string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, shared.Get(t))
}

func newWorldIn(t *testing.T, c *clustertest.Cluster) *world {
	t.Helper()
	w := &world{Cluster: c, t: t, dir: t.TempDir()}
	var err error
	if w.kube, err = kubernetes.NewForConfig(w.Config()); err != nil {
		t.Fatal(err)
	}
	if w.dynamic, err = dynamic.NewForConfig(w.Config()); err != nil {
		t.Fatal(err)
	}
	ns, err := w.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "apply-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.namespace = ns.Name
	return w
}

// file writes a source.
func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// run runs sluice with a command, in the world's namespace, and checks the exit code.
func (w *world) run(want int, command string, args ...string) (stdout, stderr string) {
	w.t.Helper()
	code, stdout, stderr := sluice(w.t, append([]string{command, "--kubeconfig", w.Kubeconfig, "-n", w.namespace}, args...)...)
	if code != want {
		w.t.Fatalf("sluice %s %s: exit code %d, want %d\n%s%s", command, strings.Join(args, " "), code, want, stdout, stderr)
	}
	return stdout, stderr
}

// apply runs sluice apply -o json.
func (w *world) apply(want int, args ...string) apply.Result {
	w.t.Helper()
	out, errs := w.run(want, "apply", append([]string{"-o", "json"}, args...)...)
	var r apply.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		w.t.Fatalf("%v\n%s%s", err, out, errs)
	}
	return r
}

// inventory lists the objects of an app as the cluster has it, and its state.
func (w *world) inventory(app string) (objects []string, state string) {
	w.t.Helper()
	cm, err := w.kube.CoreV1().ConfigMaps(w.namespace).Get(w.t.Context(), "sluice-app-"+app, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, ""
	}
	if err != nil {
		w.t.Fatal(err)
	}
	var v struct {
		State   string
		Objects []struct{ Kind, Name string }
	}
	if err := json.Unmarshal([]byte(cm.Data["inventory.json"]), &v); err != nil {
		w.t.Fatal(err)
	}
	for _, o := range v.Objects {
		objects = append(objects, o.Kind+"/"+o.Name)
	}
	slices.Sort(objects)
	return objects, v.State
}

func configMap(name string, data ...string) string {
	text := "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  always: same\n"
	for i := 0; i+1 < len(data); i += 2 {
		text += fmt.Sprintf("  %s: %q\n", data[i], data[i+1])
	}
	return text
}

func TestE2EApplyOnceAgainAndChanged(t *testing.T) {
	w := newWorld(t)
	text := configMap("a") + configMap("b") + `---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {password: hunter2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 0
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}, creationTimestamp: null}
    spec:
      containers:
      - name: c
        image: example.com/c:1
        ports: [{containerPort: 80}]
        resources: {requests: {cpu: "0.5", memory: 1000Mi}}
        env: [{name: B, value: "1"}, {name: A, value: "2"}]
status: {}
---
apiVersion: v1
kind: Service
metadata: {name: d}
spec: {selector: {app: d}, ports: [{port: 80, targetPort: 80}]}
`
	f := w.file("a.yaml", text)
	r := w.apply(ExitOK, "--app", "x", "-f", f, "--wait=false")
	if diff := cmp.Diff(map[string]int{"create": 5}, r.Summary); diff != "" {
		t.Error(diff)
	}
	objects, state := w.inventory("x")
	if diff := cmp.Diff([]string{"ConfigMap/a", "ConfigMap/b", "Deployment/d", "Secret/s", "Service/d"}, objects); diff != "" || state != "applied" {
		t.Errorf("state %s: %s", state, diff)
	}
	// Again: nothing is written, not even the inventory.
	before := w.versions()
	if r := w.apply(ExitOK, "--app", "x", "-f", f, "--wait=false"); r.Outcome != "unchanged" || r.Summary["unchanged"] != 5 {
		t.Errorf("again: %s %v", r.Outcome, r.Summary)
	}
	if diff := cmp.Diff(before, w.versions()); diff != "" {
		t.Errorf("written although nothing changed: %s", diff)
	}
	// What somebody else changes is put right; what they add stays.
	_, err := w.kube.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), "a", "application/merge-patch+json", []byte(`{"data":{"always":"other"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		t.Fatal(err)
	}
	r = w.apply(ExitFindings, "--app", "x", "-f", f, "--wait=false")
	if len(r.Conflicts) != 1 || r.Conflicts[0].Field != ".data.always" || r.Conflicts[0].Owner != "kubectl-edit using v1" || !r.Conflicts[0].Update || r.Conflicts[0].Line == 0 {
		t.Errorf("conflicts %+v", r.Conflicts)
	}
	r = w.apply(ExitOK, "--app", "x", "-f", f, "--wait=false", "--force-conflicts")
	cm, err := w.kube.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || cm.Data["always"] != "same" {
		t.Errorf("%v %v, %v", r.Summary, cm.Data, err)
	}
}

// versions gives the resource versions of the ConfigMaps of the world.
func (w *world) versions() map[string]string {
	w.t.Helper()
	list, err := w.kube.CoreV1().ConfigMaps(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, cm := range list.Items {
		if cm.Name != "kube-root-ca.crt" {
			out[cm.Name] = cm.ResourceVersion
		}
	}
	return out
}

// widget is a CRD with objects and an admission policy that only comes after both. The group is the test's own.
func widget(group, enum string, more ...string) string {
	text := fmt.Sprintf(`---
apiVersion: %[1]s/v1
kind: Widget
metadata: {name: w}
spec: {size: small}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.%[1]s}
spec:
  group: %[1]s
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: string, enum: [%[2]s]}
`, group, enum)
	return text + strings.Join(more, "")
}

func TestE2EApplyStopsAnUnsafeUpgradeBeforeAnythingIsChanged(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	v1 := w.file("v1.yaml", widget(group, "small, large"))
	if r := w.apply(ExitOK, "--app", "x", "-f", v1); r.Summary["create"] != 2 {
		t.Fatalf("%+v", r)
	}
	unsafe := w.file("unsafe.yaml", configMap("new")+"---\n"+strings.Split(widget(group, "large"), "---\n")[2])
	before := w.versions()
	r := w.apply(ExitFindings, "--app", "x", "-f", unsafe)
	if r.Outcome != "blocked" || !slices.Contains(r.Ran, "CRDUpgradeSafety") || !strings.Contains(string(r.Report), "1 of 1 stored object") {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff(before, w.versions()); diff != "" {
		t.Errorf("changed although it is blocked: %s", diff)
	}
	out, errs := w.run(ExitFindings, "apply", "--app", "x", "-f", unsafe)
	for _, want := range []string{"enum-value-removed", "unsafe.yaml:", "1 of 1"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report does not say %q:\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "nothing was changed") {
		t.Errorf("stderr %s", errs)
	}
	if out, _ := w.run(ExitFindings, "apply", "--app", "x", "-f", unsafe, "--report", "sarif"); !json.Valid([]byte(out)) {
		t.Errorf("no SARIF: %s", out)
	}
	// A safe one, with an object that only the new CRD accepts.
	safe := w.file("safe.yaml", widget(group, "small, large, huge", fmt.Sprintf("---\napiVersion: %s/v1\nkind: Widget\nmetadata: {name: huge}\nspec: {size: huge}\n", group)))
	if r := w.apply(ExitOK, "--app", "x", "-f", safe); r.Summary["create"] != 1 || r.Summary["update"] != 1 || r.Summary["unchanged"] != 1 {
		t.Errorf("%v", r.Summary)
	}
	// Not named is off.
	if r := w.apply(ExitOK, "--app", "x", "-f", unsafe, "--preflight", "PermissionValidation"); r.Outcome != "applied" || len(r.Ran) != 1 {
		t.Errorf("%s %v", r.Outcome, r.Ran)
	}
}

func TestE2EApplyAndPrune(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	v1 := w.file("v1.yaml", widget(group, "small", configMap("a")+configMap("b")+configMap("c")))
	w.apply(ExitOK, "--app", "x", "-f", v1)
	v2 := w.file("v2.yaml", configMap("a"))

	// Without --prune nothing is deleted, and nothing forgotten.
	w.apply(ExitOK, "--app", "x", "-f", v2)
	if objects, _ := w.inventory("x"); len(objects) != 5 {
		t.Errorf("objects %v", objects)
	}
	// What another app has taken over stays, and so does what somebody made anew.
	w.apply(ExitOK, "--app", "y", "-f", w.file("b.yaml", configMap("b")), "--force-conflicts")
	if err := w.kube.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.kube.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// A stored object that the app does not know keeps the CRD.
	widgets := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	stray := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": "stray"}}}
	if _, err := w.dynamic.Resource(widgets).Namespace(w.namespace).Create(t.Context(), stray, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	out, _ := w.run(ExitFindings, "apply", "--app", "x", "-f", v2, "--prune")
	shown, done := strings.Index(out, "will be deleted: Widget."), strings.Index(out, "\ndeleted Widget.")
	if shown < 0 || done < shown || !strings.Contains(out, "will be kept: CustomResourceDefinition") || !strings.Contains(out, "--allow-delete-crds") {
		t.Errorf("output:\n%s", out)
	}
	if objects, state := w.inventory("x"); state != "applied" || !cmp.Equal(objects, []string{"ConfigMap/a", "CustomResourceDefinition/widgets." + group}) {
		t.Errorf("%s: %v", state, objects)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "sluice-app-x", "sluice-app-y"}, slices.Sorted(maps.Keys(w.versions()))); diff != "" {
		t.Error(diff)
	}
	w.apply(ExitOK, "--app", "x", "-f", v2, "--prune", "--allow-delete-crds")
	if objects, _ := w.inventory("x"); !cmp.Equal(objects, []string{"ConfigMap/a"}) {
		t.Errorf("%v", objects)
	}
}

func TestE2EDiffDryRunLsAndDelete(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	text := widget(group, "small", configMap("a"), `---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {password: hunter2}
`)
	v1 := w.file("v1.yaml", text)
	for _, mode := range []string{"client", "server"} {
		if r := w.apply(ExitOK, "--app", "x", "-f", v1, "--dry-run", mode); r.Outcome != "tried" || r.Summary["create"] != 4 {
			t.Errorf("%s: %+v", mode, r)
		}
	}
	out, errs := w.run(ExitFindings, "diff", "--app", "x", "-f", v1)
	if !strings.Contains(out, "+  always: same") || strings.Contains(out, "hunter2") || strings.Contains(out, "aHVudGVyMg") || !strings.Contains(out, "4 to be created, 0 to be updated") || !strings.Contains(errs, "its CRD is not served yet") {
		t.Errorf("diff:\n%s%s", out, errs)
	}
	if diff := cmp.Diff(map[string]string{}, w.versions()); diff != "" {
		t.Errorf("written by a dry run: %s", diff)
	}
	w.apply(ExitOK, "--app", "x", "-f", v1)
	if out, _ := w.run(ExitOK, "diff", "--app", "x", "-f", v1); out != "0 to be created, 0 to be updated, 0 to be deleted\n" {
		t.Errorf("diff:\n%s", out)
	}
	v2 := w.file("v2.yaml", strings.ReplaceAll(strings.ReplaceAll(text, "always: same", "always: new"), "hunter2", "hunter3"))
	out, _ = w.run(ExitFindings, "diff", "--app", "x", "-f", v2)
	if !strings.Contains(out, "-  always: same\n+  always: new") || !strings.Contains(out, "(not shown, after)") || strings.Contains(out, "hunter") || !strings.Contains(out, "2 to be updated") {
		t.Errorf("diff:\n%s", out)
	}
	out, _ = w.run(ExitOK, "ls")
	if !strings.Contains(out, "applied") || !strings.Contains(out, "v1.yaml sha256:") {
		t.Errorf("ls:\n%s", out)
	}
	out, _ = w.run(ExitOK, "ls", "x")
	if strings.Count(out, "Current") != 4 {
		t.Errorf("ls x:\n%s", out)
	}
	w.run(ExitFailed, "ls", "nothing")

	out, _ = w.run(ExitOK, "delete", "x", "--dry-run")
	if strings.Count(out, "will be deleted: ") != 4 {
		t.Errorf("delete --dry-run:\n%s", out)
	}
	w.run(ExitOK, "delete", "x")
	if diff := cmp.Diff(map[string]string{}, w.versions()); diff != "" {
		t.Error(diff)
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := w.dynamic.Resource(crds).Get(t.Context(), "widgets."+group, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the CRD is still there: %v", err)
	}
	w.run(ExitFailed, "delete", "x")
}

func TestE2EPermissionsAreAskedForBeforeTheFirstWrite(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "deployer"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "create", "update", "patch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update", "delete"}},
		{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"roles"}, Verbs: []string{"get", "list", "create", "patch"}},
	}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "deployer"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "deployer"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: w.namespace}},
	}
	if _, err := w.kube.RbacV1().Roles(w.namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.kube.RbacV1().RoleBindings(w.namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := w.impersonating("system:serviceaccount:" + w.namespace + ":default")
	f := w.file("a.yaml", configMap("a")+`---
apiVersion: v1
kind: Secret
metadata: {name: s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: more}
rules: [{apiGroups: [""], resources: [pods], verbs: [delete]}]
`)
	code, out, errs := sluice(t, "apply", "--kubeconfig", kubeconfig, "-n", w.namespace, "--app", "x", "-f", f, "--preflight", "PermissionValidation,CRDUpgradeSafety")
	if code != ExitFindings {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{"may not create secrets in namespace " + w.namespace, "may not patch secrets s", "may not get secrets s", "may not apply Role.rbac.authorization.k8s.io " + w.namespace + "/more"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("the report does not say %q:\n%s", want, out)
		}
	}
	// Without the preflight what may not be read is an error, before anything is written.
	if code, out, errs := sluice(t, "apply", "--kubeconfig", kubeconfig, "-n", w.namespace, "--app", "x", "-f", f); code != ExitFailed || !strings.Contains(errs, "Secret "+w.namespace+"/s") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if strings.Contains(out, "may not create configmaps") {
		t.Errorf("the report says too much:\n%s", out)
	}
	if diff := cmp.Diff(map[string]string{}, w.versions()); diff != "" {
		t.Error(diff)
	}
	code, out, errs = sluice(t, "apply", "--kubeconfig", kubeconfig, "-n", w.namespace, "--app", "x", "-f", w.file("b.yaml", configMap("a")), "--preflight", "PermissionValidation")
	if code != ExitOK {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// impersonating writes a kubeconfig that acts as another user.
func (w *world) impersonating(user string) string {
	w.t.Helper()
	clustertest.AwaitRights(w.t, w.kube, w.namespace)
	text, err := os.ReadFile(w.Kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.file("kubeconfig", strings.Replace(string(text), "  user:\n", "  user:\n    as: "+user+"\n", 1))
}

func TestE2EApplyFromARepository(t *testing.T) {
	w := newWorld(t)
	repo := filepath.Join(w.dir, "repo")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	w.file("repo/deploy/a.yaml", configMap("a", "version", "1"))
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-qm", "one")
	git("tag", "v1")
	w.file("repo/deploy/a.yaml", configMap("a", "version", "2"))
	git("commit", "-qam", "two")
	for ref, want := range map[string]string{"v1": "1", "main": "2"} {
		r := w.apply(ExitOK, "--app", "x", "-f", "git+file://"+repo+"//deploy?ref="+ref)
		cm, err := w.kube.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || cm.Data["version"] != want || r.Sources[0].Digest["sha1"] != git("rev-parse", ref+"^{commit}") {
			t.Errorf("%s: %v, sources %+v, error %v", ref, cm.Data, r.Sources, err)
		}
	}
	// A ResolutionRequest is resolved here, by the resolver that it names.
	request := w.file("request.yaml", `apiVersion: resolution.tekton.dev/v1beta1
kind: ResolutionRequest
metadata:
  name: r
  namespace: `+w.namespace+`
  labels: {resolution.tekton.dev/type: cluster}
spec:
  params:
  - {name: kind, value: configmap}
  - {name: name, value: a}
`)
	out, errs := w.run(ExitFailed, "apply", "-f", request)
	if !strings.Contains(errs, "request.yaml:1") {
		t.Errorf("a request that the resolver refuses: %s%s", out, errs)
	}
}

func TestE2EWaiting(t *testing.T) {
	w := newWorld(t)
	text := `apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 1
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: c, image: "example.com/c:1"}]}
`
	f := w.file("d.yaml", text)
	begin := time.Now()
	r := w.apply(ExitFailed, "--app", "x", "-f", f, "--timeout", "2s")
	if len(r.NotReady) != 1 || r.NotReady[0].ID.Kind != "Deployment" || r.Outcome != "failed" {
		t.Errorf("after %s: %+v", time.Since(begin), r)
	}
	if _, state := w.inventory("x"); state != "applying" {
		t.Errorf("state %s", state)
	}
	// Nobody runs pods here; whoever says that it is ready is believed.
	_, err := w.kube.AppsV1().Deployments(w.namespace).Patch(t.Context(), "d", "application/merge-patch+json", []byte(
		`{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`),
		metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	if r := w.apply(ExitOK, "--app", "x", "-f", f, "--timeout", "1m"); r.Summary["unchanged"] != 1 {
		t.Errorf("%+v", r)
	}
	if _, state := w.inventory("x"); state != "applied" {
		t.Errorf("state %s", state)
	}
}

func TestE2EANamespaceComesWithItsApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.namespace += "-own"
	f := w.file("a.yaml", configMap("a")+"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: "+w.namespace+"}\n")
	w.apply(ExitOK, "--app", "x", "-f", f)
	if objects, state := w.inventory("x"); state != "applied" || !cmp.Equal(objects, []string{"ConfigMap/a", "Namespace/" + w.namespace}) {
		t.Errorf("%s: %v", state, objects)
	}
	// Without it the inventory has no place.
	ns := w.namespace
	w.namespace += "-none"
	if _, errs := w.run(ExitFailed, "apply", "--app", "x", "-f", w.file("b.yaml", configMap("a"))); !strings.Contains(errs, "does not exist and is not in the source") {
		t.Errorf("stderr %s", errs)
	}
	w.namespace = ns
	w.run(ExitOK, "delete", "x")
	if _, err := w.kube.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is still there: %v", err)
	}
}

func TestE2EWhatIsBeingDeletedIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	f := w.file("a.yaml", configMap("a"))
	maps := w.kube.CoreV1().ConfigMaps(w.namespace)
	old, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"example.com/wait"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if r := w.apply(ExitFailed, "-f", f, "--timeout", "1s"); !strings.Contains(r.Error, "--timeout") {
		t.Errorf("%+v", r)
	}
	if _, err := maps.Patch(ctx, "a", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.apply(ExitOK, "-f", f)
	if cm, err := maps.Get(ctx, "a", metav1.GetOptions{}); err != nil || cm.UID == old.UID || cm.Annotations["sluice.dev/app"] != "" {
		t.Errorf("%v, %v", cm, err)
	}
}

func TestE2ETwoAppliesOfOneAppAtOnce(t *testing.T) {
	w := newWorld(t)
	var text [2]string
	for i := range 40 {
		text[0] += configMap(fmt.Sprintf("both-%d", i), "from", "one")
		text[1] += configMap(fmt.Sprintf("both-%d", i), "from", "two") + configMap(fmt.Sprintf("second-%d", i))
	}
	files := []string{w.file("one.yaml", text[0]), w.file("two.yaml", text[1])}
	var wg sync.WaitGroup
	for _, f := range files {
		wg.Go(func() {
			code, out, errs := sluice(t, "apply", "--kubeconfig", w.Kubeconfig, "-n", w.namespace, "--app", "x", "-f", f)
			if code != ExitOK && (code != ExitFailed || !strings.Contains(errs, "run this one again")) {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
	wg.Wait()
	w.apply(ExitOK, "--app", "x", "-f", files[0], "--prune")
	objects, state := w.inventory("x")
	if len(objects) != 40 || state != "applied" || len(w.versions()) != 41 {
		t.Errorf("%s: %d objects of %d", state, len(objects), len(w.versions()))
	}
}
