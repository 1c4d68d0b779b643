//go:build e2e

package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/apply"
	applycmd "sluice.dev/internal/cli/apply"
)

// loseInventory deletes the inventory of an app, as somebody may who clears a namespace of what looks unused.
func (w *world) loseInventory(app string) {
	w.t.Helper()
	if err := w.kube.CoreV1().ConfigMaps(w.namespace).Delete(w.t.Context(), apply.InventoryName(app), metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// bind gives the account default rights in the namespace.
func (w *world) bind(name string, rules ...rbacv1.PolicyRule) {
	w.t.Helper()
	ctx := w.t.Context()
	if _, err := w.kube.RbacV1().Roles(w.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	_, err := w.kube.RbacV1().RoleBindings(w.namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: w.namespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) orphans(args ...string) []apply.Orphan {
	w.t.Helper()
	out, _ := w.run(ExitOK, "ls", append([]string{"--orphans", "-o", "json"}, args...)...)
	var list applycmd.OrphanList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	return list.Objects
}

func TestE2EALostInventoryIsNoticedAndRebuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.namespace + "-other"
	keep := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: keep, annotations: {helm.sh/resource-policy: keep}}\n"
	both := configMap("a") + configMap("b") + keep + namespaceText(other) + in(other, "far")
	all, rest := w.file("all.yaml", both), w.file("rest.yaml", configMap("a"))
	w.run(ExitOK, "apply", "--app", "x", "-f", all)
	w.run(ExitOK, "apply", "--app", "y", "-f", w.file("y.yaml", configMap("why")))
	if found := w.orphans(); len(found) > 0 {
		t.Fatalf("orphans of apps in order: %v", found)
	}
	// A copy that somebody has made with the marks of the app is not the app's.
	a, err := w.kube.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "copied", Labels: a.Labels, Annotations: a.Annotations}, Data: a.Data}
	if _, err := w.kube.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), copied, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.loseInventory("x")
	if _, errs := w.run(ExitFailed, "delete", "x"); !strings.Contains(errs, "--orphans") {
		t.Errorf("%s", errs)
	}
	// The next apply notices, and so does each one after it until the inventory is rebuilt.
	for range 2 {
		if _, errs := w.run(ExitOK, "apply", "--app", "x", "-f", rest, "--prune"); !strings.Contains(errs, "the inventory of app x was lost") || !strings.Contains(errs, "sluice adopt x -n "+w.namespace) {
			t.Errorf("the loss is not told: %s", errs)
		}
	}
	if out, _ := w.run(ExitOK, "ls", "x"); !strings.Contains(out, "incomplete") {
		t.Errorf("%s", out)
	}
	if _, errs := w.run(ExitOK, "diff", "--app", "x", "-f", rest); !strings.Contains(errs, "sluice adopt x") {
		t.Errorf("%s", errs)
	}
	want := map[string]bool{"ConfigMap " + w.namespace + "/b": true, "ConfigMap " + w.namespace + "/keep": true, "ConfigMap " + other + "/far": true, "Namespace " + other: true}
	for _, args := range [][]string{nil, {"x"}} {
		found := w.orphans(args...)
		for _, o := range found {
			if !want[o.String()] || o.App != w.namespace+"/x" || o.Lost || (o.Kept != "") != (o.Name == "keep") {
				t.Errorf("%+v is an orphan", o)
			}
		}
		if len(found) != len(want) {
			t.Errorf("%d orphans, want %d", len(found), len(want))
		}
	}
	if out, _ := w.run(ExitOK, "adopt", "x", "--dry-run"); !strings.Contains(out, "would adopt ConfigMap "+w.namespace+"/b") || len(w.orphans()) != len(want) {
		t.Errorf("%s", out)
	}
	out, _ := w.run(ExitOK, "adopt", "x", "-o", "json")
	var r applycmd.AdoptResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Kind != "AdoptResult" || len(r.Objects) != 3 || len(r.Left) != 1 || r.Left[0].Name != "keep" {
		t.Errorf("%v: %s", err, out)
	}
	if out, _ := w.run(ExitOK, "adopt", "x"); !strings.Contains(out, "app x: 0 objects adopted") {
		t.Errorf("%s", out)
	}
	if _, errs := w.run(ExitOK, "apply", "--app", "x", "-f", rest, "--prune"); strings.Contains(errs, "lost") {
		t.Errorf("%s", errs)
	}
	// The namespace says that the app has made it, so it goes with the rest.
	for name, stays := range map[string]bool{w.namespace + "/a": true, w.namespace + "/b": false, w.namespace + "/keep": true, other + "/far": false, other: false, w.namespace + "/copied": true, w.namespace + "/why": true} {
		if w.exists(name) != stays {
			t.Errorf("%s exists: %t", name, !stays)
		}
	}
	// Without any inventory the app is rebuilt as a whole, and can be deleted.
	w.loseInventory("x")
	if found := w.orphans("x"); len(found) == 0 || !found[0].Lost {
		t.Errorf("%+v", found)
	}
	w.run(ExitOK, "adopt", "x")
	w.run(ExitOK, "delete", "x")
	if w.exists(w.namespace+"/a") || !w.exists(w.namespace+"/copied") {
		t.Error("the deletion after adopting was wrong")
	}
	w.run(ExitFailed, "adopt", "none")
	w.run(ExitFailed, "adopt", "No")
}

func TestE2EAdoptingWithFewRightsSaysWhatWasNotListed(t *testing.T) {
	w := newWorld(t)
	w.run(ExitOK, "apply", "--app", "x", "-f", w.file("all.yaml", configMap("a")))
	w.loseInventory("x")
	w.bind("adopter",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "create", "update"}},
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update", "delete"}})
	kubeconfig := w.impersonating("system:serviceaccount:" + w.namespace + ":default")
	code, out, errs := sluice(t, "adopt", "--kubeconfig", kubeconfig, "-n", w.namespace, "x")
	if code != ExitFindings || !strings.Contains(out, "adopted ConfigMap "+w.namespace+"/a") || !strings.Contains(errs, "could be listed in namespace "+w.namespace+" only: configmaps;") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if notes := strings.Count(errs, "note: "); notes != 2 || !strings.Contains(errs, "note: this user may not list these: ") || !strings.Contains(errs, "deployments.apps") {
		t.Errorf("%d notes:\n%s", notes, errs)
	}
	if out, _ := w.run(ExitOK, "ls", "x"); !strings.Contains(out, "incomplete") {
		t.Errorf("%s", out)
	}
}

// Who may not read some objects of an app is told which, sees the others, and reads of none that it does not exist.
func TestE2EWhatMayNotBeReadIsSaid(t *testing.T) {
	w := newWorld(t)
	w.run(ExitOK, "apply", "--app", "x", "-f", w.file("all.yaml", configMap("a")+"---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"))
	w.bind("reader", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}})
	kubeconfig := w.impersonating("system:serviceaccount:" + w.namespace + ":default")
	run := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := sluice(t, append(args, "--kubeconfig", kubeconfig, "-n", w.namespace)...)
		if code != want || strings.Contains(out+errs, "does not exist") {
			t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, want, out, errs)
		}
		return out + errs
	}
	if got := run(ExitOK, "ls", "x"); !strings.Contains(got, "Current") || !strings.Contains(got, "Unknown") || !strings.Contains(got, "cannot get resource") {
		t.Errorf("%s", got)
	}
	rest := w.file("a.yaml", configMap("a"))
	for _, args := range [][]string{{"delete", "x"}, {"apply", "--app", "x", "--prune", "-f", rest}, {"diff", "--app", "x", "--prune", "-f", rest}} {
		if got := run(ExitFailed, args...); !strings.Contains(got, "Secret "+w.namespace+"/s: ") {
			t.Errorf("%v: %s", args, got)
		}
	}
	if got := run(ExitFailed, "apply", "--app", "y", "-f", w.file("b.yaml", configMap("b"))); !strings.Contains(got, "the rights to get, create, update and delete leases.coordination.k8s.io in its namespace are needed") {
		t.Errorf("%s", got)
	}
}

// The webhook that converts the objects of one kind is down. All commands that list many kinds name this kind, and go on with the others.
func TestE2EOneBrokenKindDoesNotHideTheOthers(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	const schema = "{openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"
	crd := func(versions, conversion string) string {
		return fmt.Sprintf("---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: foos.%[1]s}\n"+
			"spec: {group: %[1]s, scope: Namespaced, names: {plural: foos, singular: foo, kind: Foo}, versions: [%[2]s], conversion: %[3]s}\n", group, versions, conversion)
	}
	foo := fmt.Sprintf("---\napiVersion: %s/v1\nkind: Foo\nmetadata: {name: f}\n", group)
	w.run(ExitOK, "apply", "--app", "x", "-f", w.file("all.yaml", configMap("a")+crd("{name: v1, served: true, storage: true, schema: "+schema+"}", "{strategy: None}")+foo))
	// The new webhook comes with the same source as the CRD, so the apply of the CRD does not wait for it.
	both := "{name: v1, served: false, storage: false, schema: " + schema + "}, {name: v2, served: true, storage: true, schema: " + schema + "}"
	broken := crd(both, "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: none, namespace: "+w.namespace+"}}}}")
	w.run(ExitOK, "apply", "--app", "broken", "-f", w.file("broken.yaml", broken), "--preflight", "PermissionValidation", "--take-over", "x")
	defer w.run(ExitOK, "delete", "broken", "--allow-delete-crds")
	defer w.run(ExitOK, "apply", "--app", "broken", "-f", w.file("mended.yaml", crd(both, "{strategy: None}")), "--preflight", "PermissionValidation")

	if out, _ := w.run(ExitOK, "ls", "x"); !strings.Contains(out, "Current") || !strings.Contains(out, "Unknown") {
		t.Errorf("%s", out)
	}
	// What cannot be read stays, and the rest is deleted.
	if out, errs := w.run(ExitFindings, "delete", "x"); !strings.Contains(out+errs, "it cannot be read now") || w.exists(w.namespace+"/a") {
		t.Errorf("%s%s", out, errs)
	}
	w.run(ExitOK, "apply", "--app", "x", "-f", w.file("a.yaml", configMap("a")))
	w.loseInventory("x")
	out, errs := w.run(ExitOK, "ls", "--orphans")
	if !strings.Contains(out, "ConfigMap") || !strings.Contains(errs, "foos."+group) {
		t.Errorf("%s%s", out, errs)
	}
	if out, errs := w.run(ExitFindings, "adopt", "x"); !strings.Contains(out, "adopted ConfigMap "+w.namespace+"/a") || !strings.Contains(errs, "foos."+group) {
		t.Errorf("%s%s", out, errs)
	}
	if _, errs := w.run(ExitFindings, "delete", "broken"); !strings.Contains(errs, "CustomResourceDefinition.apiextensions.k8s.io foos."+group) || !strings.Contains(errs, "it stays") {
		t.Errorf("%s", errs)
	}
	w.run(ExitOK, "delete", "x")
}
