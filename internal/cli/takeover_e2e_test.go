//go:build e2e

package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"sluice.dev/apply"
	applycmd "sluice.dev/internal/cli/apply"
)

const takeoverBefore = `apiVersion: v1
kind: ConfigMap
metadata: {name: c, labels: {keep: same, old: x}, annotations: {example.com/old: x}}
data: {a: "1", b: "2"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 0
  minReadySeconds: 7
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d, old: x}}
    spec:
      nodeSelector: {old: x}
      containers:
      - name: c
        image: example.com/c:1
        args: [old]
        ports: [{containerPort: 80}, {containerPort: 81}]
        env: [{name: A, value: "1"}, {name: OLD, value: x}]
      - {name: old, image: example.com/old:1}
`

const takeoverAfter = `apiVersion: v1
kind: ConfigMap
metadata: {name: c, labels: {keep: same}}
data: {a: "1"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 0
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      containers:
      - name: c
        image: example.com/c:1
        ports: [{containerPort: 80}]
        env: [{name: A, value: "1"}]
`

// formerAppliers bring a file as tools do that apply whole manifests, by the requests that they send.
func formerAppliers(w *world) map[string]func(t *testing.T, namespace, file string) {
	kubectl := func(t *testing.T, namespace string, args ...string) {
		t.Helper()
		if _, errs, err := w.Kubectl(t, "", append([]string{"-n", namespace}, args...)...); err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, errs)
		}
	}
	return map[string]func(t *testing.T, namespace, file string){
		"kubectl-client-side-apply": func(t *testing.T, namespace, file string) {
			kubectl(t, namespace, "apply", "-f", file)
		},
		// Helm 3 creates, and patches by strategic merge patches, as the manager helm (pkg/kube/client.go).
		"helm": func(t *testing.T, namespace, file string) {
			kubectl(t, namespace, "create", "--field-manager=helm", "-f", file)
			patch := `{"metadata":{"annotations":{"meta.helm.sh/release-name":"shop"}}}`
			for _, object := range []string{"configmap/c", "deployment/d"} {
				kubectl(t, namespace, "patch", "--field-manager=helm", object, "-p", patch)
			}
		},
		// Helm 4 applies on the server.
		"helm applies": func(t *testing.T, namespace, file string) {
			kubectl(t, namespace, "apply", "--server-side", "--field-manager=helm", "-f", file)
		},
		// kapp creates and replaces (pkg/kapp/clusterapply).
		"kapp": func(t *testing.T, namespace, file string) {
			kubectl(t, namespace, "create", "--field-manager=kapp", "-f", file)
			kubectl(t, namespace, "replace", "--field-manager=kapp", "-f", file)
		},
	}
}

var takeoverKinds = map[string]schema.GroupVersionResource{
	"c": {Version: "v1", Resource: "configmaps"}, "d": {Group: "apps", Version: "v1", Resource: "deployments"},
}

// content is what an object has, without what the server notes and without what marks it as an app's.
func (w *world) content(t *testing.T, namespace, name string) (map[string]any, *unstructured.Unstructured) {
	t.Helper()
	obj, err := w.dynamic.Resource(takeoverKinds[name]).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	annotations := obj.GetAnnotations()
	for _, k := range []string{"sluice.dev/app", "kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"} {
		delete(annotations, k)
	}
	labels := obj.GetLabels()
	if delete(labels, "sluice.dev/app-id"); len(labels) == 0 {
		labels = nil
	}
	spec := map[string]any{"labels": labels, "spec": obj.Object["spec"], "data": obj.Object["data"]}
	if len(annotations) > 0 {
		spec["annotations"] = annotations
	}
	return spec, obj
}

// What another applier has brought becomes the app's: the fields that the source does not have go, as diff says, and nobody else's.
// What kubectl makes of its own client-side apply is the measure.
func TestE2ETakingOverFromOtherAppliersRemovesTheirFields(t *testing.T) {
	w := newWorld(t)
	before, after := w.file("before.yaml", takeoverBefore), w.file("after.yaml", takeoverAfter)
	appliers := formerAppliers(w)
	measure := newWorld(t)
	appliers["kubectl-client-side-apply"](t, measure.namespace, before)
	if _, errs, err := w.Kubectl(t, "", "-n", measure.namespace, "apply", "--server-side", "-f", after); err != nil {
		t.Fatal(err, errs)
	}
	for name, bring := range appliers {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			manager, _, _ := strings.Cut(name, " ")
			bring(t, w.namespace, before)
			// A field of somebody who does not apply manifests stays.
			if _, errs, err := w.Kubectl(t, "", "-n", w.namespace, "annotate", "configmap", "c", "example.com/mine=y"); err != nil {
				t.Fatal(err, errs)
			}
			out, _ := w.run(ExitFindings, "diff", "--app", "x", "-f", after, "-o", "json")
			var d applycmd.DiffResult
			if err := json.Unmarshal([]byte(out), &d); err != nil {
				t.Fatal(err)
			}
			text, _ := w.run(ExitFindings, "diff", "--app", "x", "-f", after)
			if !strings.Contains(text, "is taken over from "+manager) || !strings.Contains(text, "-  b: \"2\"") || !strings.Contains(text, "image: example.com/old:1") {
				t.Errorf("diff:\n%s", text)
			}
			tried, _ := w.run(ExitOK, "apply", "--app", "x", "-f", after, "--dry-run=server")
			if !strings.Contains(tried, "taking it over from "+manager) {
				t.Errorf("dry run:\n%s", tried)
			}
			r := w.apply(ExitOK, "--app", "x", "-f", after, "--wait=false")
			for _, o := range r.Objects {
				if !slices.Equal(o.TakesOver, []string{manager}) {
					t.Errorf("%s takes over from %q", o.ID, o.TakesOver)
				}
			}
			for _, object := range []string{"c", "d"} {
				got, obj := w.content(t, w.namespace, object)
				want, _ := w.content(t, measure.namespace, object)
				if object == "c" {
					want["annotations"] = map[string]string{"example.com/mine": "y"}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, against kubectl: %s", object, diff)
				}
				for _, e := range obj.GetManagedFields() {
					if e.Manager == manager && e.Subresource == "" {
						t.Errorf("%s still has fields of %s: %s", object, manager, e.FieldsV1)
					}
				}
				// What diff has shown is what came.
				i := slices.IndexFunc(d.Differences, func(d apply.Difference) bool { return d.Name == object })
				var shown map[string]any
				if err := yaml.Unmarshal([]byte(d.Differences[i].After), &shown); err != nil {
					t.Fatal(err)
				}
				promised := &unstructured.Unstructured{Object: shown}
				if diff := cmp.Diff(obj.GetAnnotations()["example.com/mine"], promised.GetAnnotations()["example.com/mine"]); diff != "" {
					t.Error(diff)
				}
				live, err := yaml.Marshal(obj.Object[map[string]string{"c": "data", "d": "spec"}[object]])
				if err != nil {
					t.Fatal(err)
				}
				said, err := yaml.Marshal(shown[map[string]string{"c": "data", "d": "spec"}[object]])
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(live), string(said)); diff != "" {
					t.Errorf("%s: diff promised something else: %s", object, diff)
				}
			}
			if r := w.apply(ExitOK, "--app", "x", "-f", after, "--wait=false"); r.Outcome != applycmd.OutcomeUnchanged {
				t.Errorf("again: %s %v", r.Outcome, r.Summary)
			}
		})
	}
}

// Values that differ are conflicts, as before, and nothing is moved until they are solved. Without an app nothing is taken over, which
// is told; an applier that may share the object on purpose gives its fields only where that is asked for.
func TestE2ETakingOverAsksWhereItMust(t *testing.T) {
	w := newWorld(t)
	before := w.file("before.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: \"1\", b: \"2\"}\n")
	after := w.file("after.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: \"3\"}\n")
	same := w.file("same.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: \"1\"}\n")
	data := func() map[string]string {
		t.Helper()
		cm, err := w.kube.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "c", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return cm.Data
	}
	formerAppliers(w)["kubectl-client-side-apply"](t, w.namespace, before)
	versions := w.versions()
	if r := w.apply(ExitFindings, "--app", "x", "-f", after); len(r.Conflicts) != 1 || r.Conflicts[0].Field != ".data.a" {
		t.Errorf("%+v", r.Conflicts)
	}
	if diff := cmp.Diff(versions, w.versions()); diff != "" {
		t.Errorf("written in spite of the conflict: %s", diff)
	}
	_, errs := w.run(ExitOK, "apply", "-f", same)
	if !strings.Contains(errs, "fields of kubectl-client-side-apply in 1 object stay") || len(data()) != 2 {
		t.Errorf("%v\n%s", data(), errs)
	}
	w.apply(ExitOK, "--app", "x", "-f", after, "--force-conflicts")
	if diff := cmp.Diff(map[string]string{"a": "3"}, data()); diff != "" {
		t.Error(diff)
	}
	share := w.file("share.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {theirs: \"1\"}\n")
	if _, errs, err := w.Kubectl(t, "", "-n", w.namespace, "apply", "--server-side", "-f", share); err != nil {
		t.Fatal(err, errs)
	}
	w.apply(ExitOK, "--app", "x", "-f", same, "--wait=false")
	if diff := cmp.Diff(map[string]string{"a": "1", "theirs": "1"}, data()); diff != "" {
		t.Error(diff)
	}
	w.apply(ExitOK, "--app", "x", "-f", same, "--force-conflicts")
	if diff := cmp.Diff(map[string]string{"a": "1"}, data()); diff != "" {
		t.Error(diff)
	}
}

// Flux and Argo CD may still be at work, so their fields move only where that is asked for. Their marks go with them.
func TestE2ETakingOverFromFluxAndArgoCD(t *testing.T) {
	const flux = "labels: {kustomize.toolkit.fluxcd.io/name: shop, kustomize.toolkit.fluxcd.io/namespace: flux-system}"
	const argo = "labels: {app.kubernetes.io/instance: shop}, annotations: {argocd.argoproj.io/tracking-id: 'shop:/ConfigMap:default/c'}"
	for name, c := range map[string]struct {
		marks   string
		applied []string
	}{
		"Flux":                         {flux, []string{"apply", "--server-side", "--field-manager=kustomize-controller"}},
		"Helm in Flux when it creates": {"labels: {helm.toolkit.fluxcd.io/name: shop}", []string{"create", "--field-manager=helm-controller"}},
		"Helm in Flux when it applies": {"labels: {helm.toolkit.fluxcd.io/name: shop}", []string{"apply", "--server-side", "--field-manager=helm-controller"}},
		"Argo CD":                      {argo, []string{"apply", "--field-manager=argocd-controller"}},
		"Argo CD on the server":        {argo, []string{"apply", "--server-side", "--field-manager=argocd-controller"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := w.file("before.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, "+c.marks+"}\ndata: {a: \"1\", b: \"2\"}\n")
			same := w.file("same.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: \"1\"}\n")
			after := w.file("after.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: \"3\"}\n")
			if _, errs, err := w.Kubectl(t, "", append([]string{"-n", w.namespace, "-f", before}, c.applied...)...); err != nil {
				t.Fatal(err, errs)
			}
			w.apply(ExitOK, "--app", "x", "-f", same)
			content, _ := w.content(t, w.namespace, "c")
			if diff := cmp.Diff(any(map[string]any{"a": "1", "b": "2"}), content["data"]); diff != "" {
				t.Errorf("fields went that nobody asked for: %s", diff)
			}
			if r := w.apply(ExitFindings, "--app", "x", "-f", after); len(r.Conflicts) != 1 || r.Conflicts[0].Field != ".data.a" {
				t.Errorf("%+v", r.Conflicts)
			}
			w.apply(ExitOK, "--app", "x", "-f", after, "--force-conflicts")
			content, _ = w.content(t, w.namespace, "c")
			want := map[string]any{"data": any(map[string]any{"a": "3"}), "spec": any(nil), "labels": map[string]string(nil)}
			if diff := cmp.Diff(want, content); diff != "" {
				t.Error(diff)
			}
			if r := w.apply(ExitOK, "--app", "x", "-f", after); r.Outcome != applycmd.OutcomeUnchanged {
				t.Errorf("again: %s", r.Outcome)
			}
		})
	}
}

// deploymentText is a Deployment with a container and fields of its Pod and its spec, as YAML flow maps without braces.
func deploymentText(container, pod, spec string) string {
	join := func(parts ...string) string {
		return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
	}
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {" + join("selector: {matchLabels: {a: b}}", spec) + ", template: {metadata: {labels: {a: b}}, spec: {" +
		join("containers: [{"+join("name: c", "image: example.test/i", container)+"}]", pod) + "}}}\n"
}

// TestE2ETakingOverWhatCannotStayBeside: of fields of a former applier that contradict those of the source nothing stays, not even what the server has
// filled in beside them. The oracle is kubectl's apply of both as the former applier.
func TestE2ETakingOverWhatCannotStayBeside(t *testing.T) {
	w := newWorld(t)
	const http, exec = "livenessProbe: {httpGet: {path: /, port: 80}}", "livenessProbe: {exec: {command: [x]}}"
	steps := map[string][2]string{
		"another probe":       {deploymentText(http, "", ""), deploymentText(exec, "", "")},
		"no probe":            {deploymentText(exec, "", ""), deploymentText("", "", "")},
		"a value in place":    {deploymentText("env: [{name: a, valueFrom: {configMapKeyRef: {name: x, key: k}}}]", "", ""), deploymentText("env: [{name: a, value: z}]", "", "")},
		"no environment":      {deploymentText("env: [{name: a, value: z}]", "", ""), deploymentText("", "", "")},
		"another volume":      {deploymentText("", "volumes: [{name: v, configMap: {name: x}}]", ""), deploymentText("", "volumes: [{name: v, secret: {secretName: x}}]", "")},
		"an empty volume":     {deploymentText("", "volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]", ""), deploymentText("", "volumes: [{name: v, emptyDir: {}}]", "")},
		"no capabilities":     {deploymentText("securityContext: {capabilities: {drop: [ALL]}}", "", ""), deploymentText("", "", "")},
		"another strategy":    {deploymentText("", "", "strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 2}}"), deploymentText("", "", "strategy: {type: Recreate}")},
		"nothing but a label": {deploymentText(http, "", ""), strings.Replace(deploymentText(http, "", ""), "{name: d}", "{name: d, labels: {l: m}}", 1)},
	}
	spec := func(namespace string) any {
		t.Helper()
		u, err := w.dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(namespace).Get(t.Context(), "d", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return []any{u.Object["spec"], u.GetLabels()["l"]}
	}
	for _, manager := range []string{"helm", "kubectl"} {
		for name, texts := range steps {
			w := newWorld(t)
			before, after := w.file("before.yaml", texts[0]), w.file("after.yaml", texts[1])
			oracle := newWorld(t).namespace
			for _, apply := range [][2]string{{w.namespace, before}, {oracle, before}, {oracle, after}} {
				if _, errs, err := w.Kubectl(t, "", "apply", "--server-side", "--field-manager="+manager, "-n", apply[0], "-f", apply[1]); err != nil {
					t.Fatalf("%s: %v: %s", name, err, errs)
				}
			}
			if code, out, errs := sluice(t, "apply", "--kubeconfig", w.Kubeconfig, "-n", w.namespace, "--app", "x", "-f", after, "--wait=false", "--force-conflicts"); code != ExitOK {
				t.Errorf("%s, from %s: exit code %d: %s%s", name, manager, code, out, errs)
				continue
			}
			if diff := cmp.Diff(spec(oracle), spec(w.namespace)); diff != "" {
				t.Errorf("%s, from %s (-kubectl +sluice): %s", name, manager, diff)
			}
		}
	}
}
