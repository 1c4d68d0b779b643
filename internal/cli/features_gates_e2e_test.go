//go:build e2e

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/config"
	applycmd "sluice.dev/internal/cli/apply"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

// gatedWidget is a CRD some of which is unstable: its fields extra and trial, the value huge of its size, the items of its list
// that are fast.
func gatedWidget(group string) string {
	return fmt.Sprintf(`---
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
              size: {type: string, enum: [small, large, huge]}
              extra: {type: object, x-kubernetes-preserve-unknown-fields: true}
              trial: {type: string}
              note: {type: string}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    fast: {type: boolean}
`, group)
}

// gatesOf is the component whose features these are. Its settings are in a ConfigMap of the namespace.
func gatesOf(component, group, namespace, optIn string) string {
	text := fmt.Sprintf(`---
apiVersion: sluice.dev/v1alpha1
kind: Component
metadata: {name: %s}
spec:
  release: v1.0.0
  configMap: {namespace: %s, name: settings}
%s`, component, namespace, optIn)
	for _, f := range []struct{ gate, field, more, when string }{
		{"Extra", "spec.extra", "", "Reject"},
		{"Huge", "spec.size", ", values: [huge]", "Reject"},
		{"Fast", "spec.parts[*].fast", "", "Reject"},
		{"Trial", "spec.trial", "", "Drop"},
	} {
		text += fmt.Sprintf(`---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.%[2]s}
spec:
  component: %[1]s
  gate: %[3]s
  whenDisabled: %[4]s
  stages: [{stage: Alpha, release: v1.0.0}]
  parts: [{group: %[5]s, resource: widgets, field: "%[6]s"%[7]s}]
`, component, strings.ToLower(f.gate), f.gate, f.when, group, f.field, f.more)
	}
	return text
}

func widgetNamed(group, name, spec string) string {
	return fmt.Sprintf("---\napiVersion: %s/v1\nkind: Widget\nmetadata: {name: %s}\nspec: %s\n", group, name, spec)
}

// featureKinds installs the kinds of features.
func (w *world) featureKinds() *kube.Client {
	w.t.Helper()
	k, err := kube.New(w.Config())
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := config.FeatureCRDs()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, u := range w.decoded(text) {
		if err := k.ApplyObject(w.t.Context(), u, false); err != nil {
			w.t.Fatal(err)
		}
		if err := k.WaitServed(w.t.Context(), u); err != nil {
			w.t.Fatal(err)
		}
	}
	return k
}

// decoded reads a stream of objects.
func (w *world) decoded(text []byte) []*unstructured.Unstructured {
	w.t.Helper()
	out, err := kube.Decode(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// gates installs the kinds of features and a component with its CRD.
func (w *world) gates(optIn string) (group, component string) {
	w.t.Helper()
	w.featureKinds()
	group, component = w.namespace+".example.com", w.namespace
	w.forgets(component)
	w.run(ExitOK, "apply", "-f", w.file("gates.yaml", gatesOf(component, group, w.namespace, optIn)+gatedWidget(group)))
	return group, component
}

// forgets deletes a component and its features in the end: other tests tell what all components of the cluster have.
func (w *world) forgets(component string) {
	w.t.Cleanup(func() {
		for resource, names := range map[string][]string{
			"features":   {component + ".extra", component + ".huge", component + ".fast", component + ".trial"},
			"components": {component},
		} {
			for _, name := range names {
				err := w.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(resource)).Delete(context.WithoutCancel(w.t.Context()), name, metav1.DeleteOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					w.t.Error(err)
				}
			}
		}
	})
}

// set changes a setting.
func (w *world) set(key, value string) {
	w.t.Helper()
	configs := w.kube.CoreV1().ConfigMaps(w.namespace)
	_, err := configs.Patch(w.t.Context(), "settings", types.MergePatchType, fmt.Appendf(nil, `{"data":{%q:%q}}`, key, value), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = configs.Create(w.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{key: value}}, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestE2EFeaturesThatAreOffStopAnApply(t *testing.T) {
	w := newWorld(t)
	widgets := func(group string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	}
	group, component := w.gates("  optIn: {namespaceLabel: true}\n")
	apply := func(want int, text string, more ...string) applycmd.Result {
		t.Helper()
		return w.apply(want, append([]string{"-f", w.file("source.yaml", text), "--preflight", "CRDUpgradeSafety,FeatureGates"}, more...)...)
	}
	// What nobody gates passes, and so does everything while the preflight is not named.
	if r := apply(ExitOK, widgetNamed(group, "plain", "{size: large}")); !slices.Contains(r.Ran, "FeatureGates") {
		t.Errorf("%+v", r)
	}
	all := widgetNamed(group, "a", `{size: huge, extra: {x: 1}, trial: x, parts: [{name: p, fast: true}, {name: q}]}`) + widgetNamed(group, "b", "{extra: {}}")
	if r := w.apply(ExitOK, "-f", w.file("all.yaml", all), "--dry-run", "server"); len(r.Ran) != 1 {
		t.Errorf("%+v", r)
	}
	r := apply(ExitFindings, all)
	if _, err := w.dynamic.Resource(widgets(group)).Namespace(w.namespace).Get(t.Context(), "a", metav1.GetOptions{}); r.Outcome != "blocked" || !apierrors.IsNotFound(err) {
		t.Errorf("%+v, %v", r, err)
	}
	var found struct {
		CRDs []struct {
			Name     string
			Findings []struct{ Rule, Severity, Path, Message, After string }
		}
	}
	if err := json.Unmarshal(r.Report, &found); err != nil || len(found.CRDs) == 0 {
		t.Fatalf("%v in %s", err, r.Report)
	}
	seen := map[string]string{}
	for _, c := range found.CRDs {
		for _, f := range c.Findings {
			if f.Rule == "feature-off" && c.Name == "widgets."+group {
				seen[f.Path] = f.Severity + " " + f.Message + " " + f.After
			}
		}
	}
	for path, words := range map[string][]string{
		".spec.extra":         {"fail", "Widget." + group + " " + w.namespace + "/a", `needs feature "Extra" of component "` + component + `"`, "ConfigMap " + w.namespace + "/settings", "also Widget." + group + " " + w.namespace + "/b"},
		".spec.size":          {"fail", `value "huge" is alpha`},
		".spec.parts[0].fast": {"fail", `"Fast"`},
		".spec.trial":         {"warn", `"Trial"`, "left out"},
	} {
		for _, word := range words {
			if !strings.Contains(seen[path], word) {
				t.Errorf("%s: no %q in %q", path, word, seen[path])
			}
		}
	}
	for _, format := range []string{"sarif", "junit", "markdown", "github", "html"} {
		out, _ := w.run(ExitFindings, "apply", "-f", w.file("source.yaml", all), "--preflight", "FeatureGates", "--report", format)
		if !strings.Contains(out, "feature-off") && format != "html" || !strings.Contains(out, "Extra") {
			t.Errorf("%s: %s", format, out)
		}
	}
	// diff tells the same where it is asked to.
	out, _ := w.run(ExitFindings, "diff", "-f", w.file("source.yaml", all), "--preflight", "FeatureGates")
	for _, want := range []string{"feature-off", "(line 2)", "+  size: huge", "2 to be created"} {
		if !strings.Contains(out, want) {
			t.Errorf("diff does not say %q: %s", want, out)
		}
	}
	// Mode warn tells and lets pass.
	warn := w.file("warn.yaml", "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\npreflightRules:\n- name: FeatureGates\n  config: {mode: warn}\n")
	w.run(ExitOK, "apply", "-f", w.file("source.yaml", all), "-c", warn, "--dry-run", "client")

	// Opened, it passes; closed again, what is stored may go on with it, and nothing else may begin to.
	w.set("enable-api-fields", "alpha")
	apply(ExitOK, all)
	w.set("enable-api-fields", "stable")
	apply(ExitOK, strings.Replace(all, "extra: {x: 1}", "extra: {x: 2}, note: more", 1))
	apply(ExitOK, strings.Replace(all, "{name: p, fast: true}, {name: q}", "{name: new}, {name: p, fast: true}", 1))
	apply(ExitFindings, strings.Replace(all, "{name: q}", "{name: q, fast: true}", 1))
	apply(ExitFindings, widgetNamed(group, "c", "{extra: {}}"))
	// A source that brings the setting with it is judged by that.
	apply(ExitOK, widgetNamed(group, "c", "{extra: {}}")+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {extra: \"true\"}\n", "--force-conflicts", "--app", "with")
	// And by its going with the source.
	apply(ExitFindings, widgetNamed(group, "d", "{extra: {}}")+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {_other: x}\n", "--force-conflicts", "--app", "with")

	// A namespace that has opted in may.
	w.set("extra", "false")
	huge := widgetNamed(group, "e", "{size: huge}")
	label := func(value string) {
		t.Helper()
		_, err := w.kube.CoreV1().Namespaces().Patch(t.Context(), w.namespace, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"feature.sluice.dev/%s.Huge":%s}}}`, component, value), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	apply(ExitFindings, huge, "--dry-run", "client")
	label(`"enabled"`)
	apply(ExitOK, huge, "--dry-run", "client")
	apply(ExitFindings, widgetNamed(group, "e", "{size: huge, extra: {}}"), "--dry-run", "client")
	label("null")
	// Where a right says so, users who have it may.
	w.run(ExitOK, "apply", "-f", w.file("gates.yaml", gatesOf(component, group, w.namespace, "  optIn: {rbac: true}\n")+gatedWidget(group)))
	user := w.impersonating("jane")
	grant := func(name string, rules ...rbacv1.PolicyRule) {
		t.Helper()
		name = w.namespace + "-" + name
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		if _, err := w.kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := w.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		clustertest.AwaitRights(t, w.kube, w.namespace)
	}
	reads := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list"}}
	}
	grant("reads", reads("", "configmaps"), reads(group, "widgets"), reads("sluice.dev", "components", "features"))
	as := func(want int, text string) {
		t.Helper()
		code, out, errs := sluice(t, "apply", "--kubeconfig", user, "-n", w.namespace, "-f", w.file("source.yaml", text), "--preflight", "FeatureGates", "--dry-run", "client")
		if code != want {
			t.Fatalf("exit code %d, want %d: %s%s", code, want, out, errs)
		}
	}
	as(ExitFindings, huge)
	grant("uses", rbacv1.PolicyRule{APIGroups: []string{"sluice.dev"}, Resources: []string{"features"}, ResourceNames: []string{component + ".huge"}, Verbs: []string{"use"}})
	as(ExitOK, huge)
	as(ExitFindings, widgetNamed(group, "e", "{size: huge, extra: {}}"))
}

func TestE2EFeaturesOfTheSourceItselfAreLookedAt(t *testing.T) {
	w := newWorld(t)
	w.gates("")
	// Another component, with its CRD, its settings and an object, that come together.
	group, component := w.namespace+".example.net", w.namespace+"-other"
	w.forgets(component)
	text := gatesOf(component, group, w.namespace, "") + gatedWidget(group) + widgetNamed(group, "a", "{extra: {}}")
	text = strings.ReplaceAll(text, "name: settings", "name: other")
	out, _ := w.run(ExitFindings, "apply", "-f", w.file("source.yaml", text), "--preflight", "FeatureGates")
	if !strings.Contains(out, `component "`+component+`"`) {
		t.Errorf("%s", out)
	}
	open := text + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\ndata: {feature-gates: \"Extra=true\"}\n"
	w.run(ExitOK, "apply", "-f", w.file("source.yaml", open), "--preflight", "FeatureGates", "--app", "x")
	// A definition that is wrong, and settings that are, are told and stop nothing.
	wrong := strings.Replace(open, `field: "spec.extra"`, `field: "spec.extras"`, 1)
	wrong = strings.Replace(wrong, "Extra=true", "Fast=maybe", 1)
	out, _ = w.run(ExitOK, "apply", "-f", w.file("source.yaml", strings.Replace(wrong, "{extra: {}}", "{note: x}", 1)), "--preflight", "FeatureGates", "--app", "x", "--dry-run", "client")
	if !strings.Contains(out, `no field "extras"`) || !strings.Contains(out, "maybe") {
		t.Errorf("%s", out)
	}
}

func isStoppedByAFeature(t *testing.T, d *deliveryWorld) {
	group, component := d.gates("")
	d.grant("all", rule("", "configmaps"), rule("apiextensions.k8s.io", "customresourcedefinitions"), rule(group, "widgets"))
	v1 := d.push(widgetNamed(group, "a", "{size: small}"))
	gates := func(s *v1alpha1.DeliverySpec) { s.Preflights = []v1alpha1.Preflight{{Name: "FeatureGates"}} }
	d.create("x", gates)
	// It may not see which features there are.
	d.reaches("x", v1alpha1.ReasonForbidden, says("list", "components.sluice.dev"))
	d.grant("features", rule("sluice.dev", "components", "features"))
	d.applies("x", v1)
	v2 := d.push(widgetNamed(group, "a", "{size: huge}"))
	o := d.reaches("x", v1alpha1.ReasonBlocked, says("feature-off", `value "huge" is alpha`, component))
	if o.Status.Report == nil || o.Status.Report.Fail != 1 || o.Status.Report.Worst[0].Rule != "feature-off" || o.Status.Decided.Features == "" {
		t.Errorf("%+v", o.Status)
	}
	d.round("x")
	d.reaches("x", v1alpha1.ReasonBlocked, nil)
	until(t, "one event", func() error {
		if n := d.events("x", v1alpha1.ReasonBlocked); n != 1 {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	// The source is what it was; a setting lets it pass.
	d.set("huge", "true")
	d.applies("x", v2)
	// And closed again, nothing of what runs is in the way.
	d.set("huge", "false")
	d.round("x")
	d.applies("x", v2)
}
