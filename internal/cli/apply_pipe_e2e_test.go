//go:build e2e

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/internal/cli/apply"
	"sluice.dev/internal/cli/command"
)

// pipe is what a program printed, piped into sluice.
func (w *world) pipe(want int, text string, args ...string) (stdout, stderr string) {
	w.t.Helper()
	var out, errs bytes.Buffer
	e := &command.Env{In: strings.NewReader(text), Out: &out, Err: &errs, Now: time.Now, Getenv: func(string) string { return "" }}
	code := runCommand(w.t.Context(), append([]string{args[0], "--kubeconfig", w.Kubeconfig, "-n", w.namespace, "-f", "-"}, args[1:]...), e)
	if code != want {
		w.t.Fatalf("sluice %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, want, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// pipeApply is pipe into sluice apply -o json.
func (w *world) pipeApply(want int, text string, args ...string) apply.Result {
	w.t.Helper()
	out, errs := w.pipe(want, text, append([]string{"apply", "-o", "json"}, args...)...)
	var r apply.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		w.t.Fatalf("%v\n%s%s", err, out, errs)
	}
	return r
}

// configMaps lists those of a namespace, without the one that the cluster makes.
func (w *world) configMaps(namespace string) []string {
	w.t.Helper()
	list, err := w.kube.CoreV1().ConfigMaps(namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, cm := range list.Items {
		if cm.Name != "kube-root-ca.crt" {
			names = append(names, cm.Name)
		}
	}
	return names
}

// What kubectl kustomize prints is applied, and the ConfigMap of which a generator has changed the hash is replaced.
func TestE2EKustomizeComesThroughAPipe(t *testing.T) {
	w := newWorld(t)
	made := w.namespace + "-kustomized"
	group := w.namespace + ".example.com"
	w.file("base/namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+made+"}\n")
	w.file("base/widgets.yaml", widget(group, "small, large"))
	w.file("base/deployment.yaml", `apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 0
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - name: shop
        image: example.com/shop:1
        envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: keys}}]
`)
	w.file("base/kustomization.yaml", `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [namespace.yaml, widgets.yaml, deployment.yaml]
configMapGenerator:
- {name: settings, files: [settings.properties]}
secretGenerator:
- {name: keys, literals: [key=one]}
`)
	w.file("overlay/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: "+made+"\nresources: [../base]\nimages: [{name: example.com/shop, newTag: \"2\"}]\n")
	build := func(settings string) string {
		t.Helper()
		w.file("base/settings.properties", settings)
		out, errs, err := w.Kubectl(t, "", "kustomize", filepath.Join(w.dir, "overlay"))
		if err != nil {
			t.Fatalf("%v: %s", err, errs)
		}
		return out
	}
	// used is the ConfigMap that the Deployment takes its settings from.
	used := func() string {
		t.Helper()
		d, err := w.kube.AppsV1().Deployments(made).Get(t.Context(), "shop", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c := d.Spec.Template.Spec.Containers[0]
		if c.Image != "example.com/shop:2" {
			t.Errorf("image %s", c.Image)
		}
		return c.EnvFrom[0].ConfigMapRef.Name
	}

	first := build("color=red\n")
	if r := w.pipeApply(ExitOK, first, "--app", "x", "--wait=false"); r.Summary["create"] != 6 {
		t.Errorf("%+v", r.Summary)
	}
	before := used()
	if !strings.HasPrefix(before, "settings-") || !slices.Equal(w.configMaps(made), []string{before}) {
		t.Errorf("the Deployment uses %s, and there are %v", before, w.configMaps(made))
	}
	widgets := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	if _, err := w.dynamic.Resource(widgets).Namespace(made).Get(t.Context(), "w", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if r := w.pipeApply(ExitOK, build("color=red\n"), "--app", "x", "--wait=false", "--prune"); r.Outcome != apply.OutcomeUnchanged || r.Summary["unchanged"] != 6 {
		t.Errorf("again: %s %v", r.Outcome, r.Summary)
	}

	second := build("color=blue\n")
	if _, errs := w.pipe(ExitFindings, second, "diff", "--app", "x", "--prune"); strings.Contains(errs, "error") {
		t.Errorf("diff: %s", errs)
	}
	out, _ := w.pipe(ExitOK, second, "apply", "--app", "x", "--wait=false", "--prune")
	shown, deleted := strings.Index(out, "will be deleted: ConfigMap "+made+"/"+before), strings.Index(out, "\ndeleted ConfigMap "+made+"/"+before)
	after := used()
	written := strings.Index(out, "\nupdated Deployment.apps "+made+"/shop")
	if shown < 0 || written < shown || deleted < written {
		t.Errorf("the old ConfigMap is to be shown, then the Deployment written, then the old one deleted: %s", out)
	}
	if after == before || !slices.Equal(w.configMaps(made), []string{after}) {
		t.Errorf("the Deployment used %s and uses %s, and there are %v", before, after, w.configMaps(made))
	}
	objects, state := w.inventory("x")
	want := []string{"ConfigMap/" + after, "CustomResourceDefinition/widgets." + group, "Deployment/shop", "Namespace/" + made, "Widget/w"}
	objects = slices.DeleteFunc(objects, func(o string) bool { return strings.HasPrefix(o, "Secret/keys-") })
	if diff := cmp.Diff(want, objects); diff != "" || state != "applied" {
		t.Errorf("state %s: %s", state, diff)
	}
	// Back: the one with the first hash is made anew.
	w.pipeApply(ExitOK, first, "--app", "x", "--wait=false", "--prune")
	if used() != before || !slices.Equal(w.configMaps(made), []string{before}) {
		t.Errorf("the Deployment uses %s, and there are %v", used(), w.configMaps(made))
	}
	w.run(ExitOK, "delete", "x")
	if _, err := w.kube.CoreV1().Namespaces().Get(t.Context(), made, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace: %v", err)
	}
}

// What helm template prints of a chart (testdata/helm says how it was made) is applied as an install or an upgrade is, as far as that
// can be said of objects: Helm's own annotations are minded, and it is told where they are not.
func TestE2EHelmComesThroughAPipe(t *testing.T) {
	w := newWorld(t)
	rendered := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("testdata/helm", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	args := []string{"apply", "--app", "x", "--wait=false"}
	// Without the CRDs of the chart one of its objects is of a kind that nobody knows.
	_, errs := w.pipe(ExitFailed, rendered("template.yaml"), args...)
	if !strings.Contains(errs, "Basket.helm.example.com shop: the cluster does not serve this kind") || !strings.Contains(errs, "the source has no CRD for it") {
		t.Errorf("without CRDs: %s", errs)
	}

	all := rendered("template-crds.yaml")
	out, errs := w.pipe(ExitOK, all, args...)
	for _, want := range []string{
		"left out, because Helm runs it neither at an install nor at an upgrade: Pod shop-test-connection (test), Job.batch shop-drop-database (pre-delete)\n",
		"although it is a hook of Helm: Job.batch " + w.namespace + "/shop-migrate (pre-install,pre-upgrade); helm template --no-hooks",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in %s", want, errs)
		}
	}
	if strings.Contains(out, "shop-drop-database") || strings.Contains(out, "shop-test-connection") {
		t.Errorf("what is left out is applied: %s", out)
	}
	want := []string{
		"Basket/shop", "ConfigMap/shop-listed-a", "ConfigMap/shop-listed-b", "ConfigMap/shop-shop", "CustomResourceDefinition/baskets.helm.example.com",
		"Deployment/shop-shop", "Job/shop-migrate", "PersistentVolumeClaim/shop-data", "Service/shop-shop",
	}
	objects, state := w.inventory("x")
	if diff := cmp.Diff(want, objects); diff != "" || state != "applied" {
		t.Errorf("state %s: %s", state, diff)
	}
	jobs, err := w.kube.BatchV1().Jobs(w.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(jobs.Items) != 1 {
		t.Errorf("%d jobs, %v", len(jobs.Items), err)
	}
	if r := w.pipeApply(ExitOK, all, args[1:]...); r.Outcome != apply.OutcomeUnchanged || r.Summary["unchanged"] != len(want) || len(r.LeftOut) != 2 {
		t.Errorf("again: %s %v, left out %v", r.Outcome, r.Summary, r.LeftOut)
	}

	// Without hooks the Job goes with the next prune, and there is nothing to tell.
	crd, _, _ := strings.Cut(all, "# Source: shop/templates/")
	out, errs = w.pipe(ExitOK, crd+rendered("template-no-hooks.yaml"), append(args, "--prune")...)
	if !strings.Contains(out, "deleted Job.batch "+w.namespace+"/shop-migrate") || strings.Contains(errs, "Helm") {
		t.Errorf("without hooks: %s%s", out, errs)
	}
	// What Helm would keep when it is no longer in the chart stays, and so it does when the app is deleted.
	kept := "PersistentVolumeClaim " + w.namespace + "/shop-data: its annotation helm.sh/resource-policy: keep says that it stays"
	out, _ = w.pipe(ExitOK, crd+configMap("shop-shop"), append(args, "--prune")...)
	if !strings.Contains(out, "will be left alone: "+kept) {
		t.Errorf("pruned: %s", out)
	}
	claims := w.kube.CoreV1().PersistentVolumeClaims(w.namespace)
	if c, err := claims.Get(t.Context(), "shop-data", metav1.GetOptions{}); err != nil || c.DeletionTimestamp != nil {
		t.Errorf("pruned: %v, %v", c, err)
	}
	w.pipe(ExitOK, all, args...)
	out, _ = w.run(ExitOK, "delete", "x")
	if !strings.Contains(out, "left alone: "+kept) {
		t.Errorf("deleted: %s", out)
	}
	if c, err := claims.Get(t.Context(), "shop-data", metav1.GetOptions{}); err != nil || c.DeletionTimestamp != nil {
		t.Errorf("deleted: %v, %v", c, err)
	}
	if objects, _ := w.inventory("x"); objects != nil {
		t.Errorf("the inventory has %v", objects)
	}
	// A source of hooks alone is a mistake, not an app without objects.
	_, tests, _ := strings.Cut(all, "# Source: shop/templates/tests/connection.yaml")
	tests, _, _ = strings.Cut(tests, "# Source: shop/templates/migrate.yaml")
	if _, errs := w.pipe(ExitFailed, tests, args...); !strings.Contains(errs, "the source has no object to apply: left out") {
		t.Errorf("hooks alone: %s", errs)
	}
}

// Hooks of one name are taken as Helm takes them; one that was applied before goes with the next prune.
func TestE2EHooksThatAreLeftOut(t *testing.T) {
	w := newWorld(t)
	hook := func(event, value string) string {
		return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: h, annotations: {helm.sh/hook: \"" + event + "\"}}\ndata: {a: \"" + value + "\"}\n"
	}
	_, errs := w.pipe(ExitOK, configMap("a")+hook("pre-install", "1")+hook("pre-delete", "2")+hook("test", "3"), "apply", "--app", "x")
	if !strings.Contains(errs, "upgrade: ConfigMap h (pre-delete), ConfigMap h (test)\n") {
		t.Error(errs)
	}
	if got := w.configMaps(w.namespace); len(got) != 3 { // the inventory is one
		t.Errorf("there are %v", got)
	}
	out, errs := w.pipe(ExitOK, configMap("a")+hook(`pre-delete`, "2"), "apply", "--app", "x", "--prune")
	if !strings.Contains(out, "will be deleted: ConfigMap "+w.namespace+"/h\n") {
		t.Error(out, errs)
	}
	_, errs = w.pipe(ExitOK, configMap("a")+hook(`pre-install,\nblocked: \e[2Jall`, "1"), "apply", "--app", "x")
	if strings.Contains(errs, "\nblocked") || strings.Contains(errs, "\x1b") {
		t.Errorf("%q", errs)
	}
}
