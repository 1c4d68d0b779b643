//go:build e2e

package cli

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func namespaceText(name string) string {
	return "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
}

// in gives a ConfigMap in another namespace than the app's.
func in(namespace, name string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\n", name, namespace)
}

// exists tells whether a namespace is there and stays, or a ConfigMap NAMESPACE/NAME.
func (w *world) exists(name string) bool {
	w.t.Helper()
	var err error
	if namespace, name, inside := strings.Cut(name, "/"); inside {
		_, err = w.kube.CoreV1().ConfigMaps(namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	} else {
		var ns *corev1.Namespace
		if ns, err = w.kube.CoreV1().Namespaces().Get(w.t.Context(), namespace, metav1.GetOptions{}); err == nil && ns.DeletionTimestamp != nil {
			return false
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

func (w *world) configMapOf(namespace, name string) {
	w.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := w.kube.CoreV1().ConfigMaps(namespace).Create(w.t.Context(), cm, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func TestE2EANamespaceDoesNotTakeWhatOthersHaveInIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, before, shared := w.namespace+"-made", w.namespace+"-before", w.namespace+"-shared"
	if _, err := w.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: before}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	all := w.file("all.yaml", namespaceText(made)+in(made, "a")+namespaceText(before)+in(before, "b")+namespaceText(shared)+in(shared, "c"))
	rest := w.file("rest.yaml", configMap("rest"))
	w.run(ExitOK, "apply", "--app", "x", "-f", all)
	// Another app, somebody without one, and a claim of storage, which would lose data.
	w.run(ExitOK, "apply", "--app", "y", "-f", w.file("y.yaml", in(shared, "theirs")))
	w.configMapOf(shared, "anybodys")
	protected := func(out string) {
		t.Helper()
		for _, want := range []string{"Namespace " + shared + ": it has 2 objects that are not the app's: ConfigMap " + shared + "/anybodys, ConfigMap " + shared + "/theirs", "--allow-delete-namespaces"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %s", want, out)
			}
		}
		for _, name := range []string{shared, shared + "/theirs", shared + "/anybodys", before} {
			if !w.exists(name) {
				t.Fatalf("%s is gone", name)
			}
		}
	}
	// A deletion finds it out before it deletes anything, and the dry run says the same.
	for _, more := range [][]string{{"--dry-run"}, nil} {
		out, errs := w.run(ExitFindings, "delete", append([]string{"x"}, more...)...)
		protected(out + errs)
		for _, name := range []string{made, made + "/a", before + "/b", shared + "/c"} {
			if !w.exists(name) {
				t.Fatalf("%s is gone", name)
			}
		}
	}
	// Whoever looks beforehand gets the answer, and the exit code, of the run itself.
	for _, look := range [][]string{{"diff"}, {"diff", "-o=json"}, {"apply", "--dry-run=client"}, {"apply", "--dry-run=server"}} {
		out, errs := w.run(ExitFindings, look[0], append([]string{"--app", "x", "-f", rest, "--prune"}, look[1:]...)...)
		if want := "2 objects that are not the app's: ConfigMap " + shared + "/anybodys"; !strings.Contains(out, want) || look[0] == "apply" && !strings.Contains(out, "1 to be kept") {
			t.Errorf("%v: %s%s", look, out, errs)
		}
	}
	out, errs := w.run(ExitFindings, "apply", "--app", "x", "-f", rest, "--prune")
	protected(out + errs)
	for _, name := range []string{made, before + "/b", shared + "/c"} {
		if w.exists(name) {
			t.Errorf("%s is still there", name)
		}
	}
	if !strings.Contains(out, "Namespace "+before+": it was there before the app") {
		t.Errorf("%s", out)
	}
	out, _ = w.run(ExitOK, "apply", "--app", "x", "-f", rest, "--prune", "--allow-delete-namespaces")
	if !strings.Contains(out, "will be deleted: Namespace "+shared+", with 2 objects that are not the app's") || w.exists(shared) {
		t.Errorf("%s", out)
	}
	// What has come between the plan and its turn counts, too: here the namespace's own turn is the last one.
	w.run(ExitOK, "apply", "--app", "z", "-f", w.file("z.yaml", namespaceText(w.namespace+"-late")+in(w.namespace+"-late", "z")))
	d := w.door(func(r *http.Request) bool {
		return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/configmaps/z")
	})
	wait := d.start(w, "delete", "z")
	<-d.closed
	w.configMapOf(w.namespace+"-late", "late")
	close(d.open)
	if code, out := wait(); code != ExitFindings || !w.exists(w.namespace+"-late/late") {
		t.Errorf("%d\n%s", code, out)
	}
	w.run(ExitOK, "delete", "z", "--allow-delete-namespaces")
	if w.exists(w.namespace + "-late") {
		t.Error("the namespace is still there")
	}
}

// The API server lets nobody delete some namespaces. An app that once named one of them can be pruned and deleted all the same.
func TestE2EASourceOnceNamedANamespaceOfTheCluster(t *testing.T) {
	w := newWorld(t)
	all := w.file("all.yaml", namespaceText("kube-system")+namespaceText("default")+configMap("a"))
	w.run(ExitOK, "apply", "--app", "x", "-f", all)
	w.run(ExitOK, "apply", "--app", "x", "-f", w.file("a.yaml", configMap("a")), "--prune", "--allow-delete-namespaces")
	w.run(ExitOK, "apply", "--app", "x", "-f", all, "--force-conflicts")
	w.run(ExitOK, "delete", "x", "--allow-delete-namespaces")
	if !w.exists("kube-system") || !w.exists("default") || w.exists(w.namespace+"/a") {
		t.Error("the cluster's own namespaces are not as they were")
	}
}

func TestE2EADeletionLooksAtEverythingFirst(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	widgets := w.gadgetsOf(group)
	widgets.Resource, widgets.Version = "widgets", "v1"
	text := widget(group, "small") + configMap("a")
	w.run(ExitOK, "apply", "--app", "x", "-f", w.file("x.yaml", text))
	theirs := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": "theirs"}}}
	if _, err := w.dynamic.Resource(widgets).Namespace(w.namespace).Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{{"--dry-run"}, nil} {
		_, errs := w.run(ExitFindings, "delete", append([]string{"x"}, more...)...)
		if !strings.Contains(errs, "nothing was deleted") || !strings.Contains(errs, "1 of them: Widget."+group+" "+w.namespace+"/theirs") || !w.exists(w.namespace+"/a") {
			t.Fatalf("%s", errs)
		}
	}
	out, _ := w.run(ExitFindings, "delete", "x", "--keep-protected")
	objects, _ := w.inventory("x")
	if !slices.Equal(objects, []string{"CustomResourceDefinition/widgets." + group}) || w.exists(w.namespace+"/a") {
		t.Errorf("%v\n%s", objects, out)
	}
	// The app's own webhook that converts has gone, or never ran: what is stored is told all the same, and nothing fails in the middle.
	crd := []byte(`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"service":{"name":"none","namespace":"` + w.namespace + `"}}}}}}`)
	crds := w.gadgetsOf(group)
	crds.Group, crds.Version, crds.Resource = "apiextensions.k8s.io", "v1", "customresourcedefinitions"
	if _, err := w.dynamic.Resource(crds).Patch(t.Context(), "widgets."+group, types.MergePatchType, crd, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	_, errs := w.run(ExitFindings, "delete", "x")
	if !strings.Contains(errs, "it has stored objects") {
		t.Errorf("%s", errs)
	}
	w.run(ExitOK, "delete", "x", "--allow-delete-crds")
	// A CRD whose names another one has is never established, and can be deleted.
	w.run(ExitOK, "apply", "--app", "one", "-f", w.file("one.yaml", widget(group, "small")))
	file := w.file("other.json", fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"others.%[1]s"},"spec":{"group":"%[1]s","scope":"Namespaced",
"names":{"plural":"others","kind":"Widget","listKind":"WidgetList","singular":"widget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, group))
	_, errs = w.run(ExitFailed, "apply", "--app", "other", "-f", file)
	if !strings.Contains(errs, "does not accept its names") {
		t.Errorf("%s", errs)
	}
	w.run(ExitOK, "delete", "other")
	w.run(ExitOK, "delete", "one")
}

// What a finalizer holds waits for the controller, which runs until it is gone.
func TestE2EADeletionKeepsControllersUntilWhatNeedsThemIsGone(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	widgets := w.gadgetsOf(group)
	widgets.Resource, widgets.Version = "widgets", "v1"
	text := widget(group, "small") + `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller}
spec:
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: c, image: "example.com/c:1"}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: controller}
` + unboundPolicy(w.namespace+"-p")
	w.run(ExitOK, "apply", "--app", "x", "-f", w.file("x.yaml", text), "--wait=false")
	patch := func(finalizers string) {
		_, err := w.dynamic.Resource(widgets).Namespace(w.namespace).Patch(t.Context(), "w", types.MergePatchType, []byte(`{"metadata":{"finalizers":[`+finalizers+`]}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	patch(`"example.com/controller"`)
	_, errs := w.run(ExitFailed, "delete", "x", "--timeout=1s")
	if !strings.Contains(errs, "a finalizer may wait") {
		t.Errorf("%s", errs)
	}
	if _, err := w.kube.AppsV1().Deployments(w.namespace).Get(t.Context(), "controller", metav1.GetOptions{}); err != nil {
		t.Errorf("the controller was deleted before what needs it: %v", err)
	}
	patch("")
	w.run(ExitOK, "delete", "x")
}

func TestE2EAPruneOfMostOfAnAppIsStopped(t *testing.T) {
	w := newWorld(t)
	text := ""
	for i := range 30 {
		text += configMap(fmt.Sprintf("c%02d", i))
	}
	w.run(ExitOK, "apply", "--app", "x", "-f", w.file("all.yaml", text))
	short := w.file("short.yaml", configMap("c00"))
	empty := w.file("empty.yaml", "# nothing\n")
	for _, args := range [][]string{{"-f", short}, {"-f", short, "--max-deletes=28"}, {"-f", short, "--max-deletes=90%"}, {"-f", short, "--dry-run=server"}} {
		_, errs := w.run(ExitFindings, "apply", append([]string{"--app", "x", "--prune"}, args...)...)
		if !strings.Contains(errs, "would delete 29 of the 30 objects") {
			t.Errorf("%v: %s", args, errs)
		}
	}
	_, errs := w.run(ExitFailed, "apply", "--app", "x", "--prune", "-f", short, "-f", empty)
	if !strings.Contains(errs, "no object in "+empty) || !strings.Contains(errs, "--allow-empty") {
		t.Errorf("%s", errs)
	}
	if objects, _ := w.inventory("x"); len(objects) != 30 {
		t.Errorf("%d objects are left", len(objects))
	}
	w.run(ExitOK, "apply", "--app", "x", "--prune", "-f", short, "-f", empty, "--allow-empty", "--max-deletes=97%")
	if objects, _ := w.inventory("x"); len(objects) != 1 {
		t.Errorf("%d objects are left", len(objects))
	}
}
