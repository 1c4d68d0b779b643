//go:build e2e

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/internal/cli/apply"
)

// gadgetCRD is a CRD with the versions that are named, each served; later ones have more fields. The last is stored.
func gadgetCRD(group string, versions ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.%[1]s}\nspec:\n  group: %[1]s\n  names: {kind: Gadget, plural: gadgets}\n  scope: Namespaced\n  versions:\n", group)
	for i, v := range versions {
		more := ""
		if i > 0 {
			more = ", color: {type: string}"
		}
		fmt.Fprintf(&b, `  - name: %s
    served: true
    storage: %t
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: string}%s
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, weight: {type: string}%s}
`, v, i == len(versions)-1, strings.ReplaceAll(more, ", color: {type: string}", "\n              color: {type: string}"), more)
	}
	return b.String()
}

func gadget(group, version, spec string) string {
	return fmt.Sprintf("---\napiVersion: %s/%s\nkind: Gadget\nmetadata: {name: g}\nspec: %s\n", group, version, spec)
}

func (w *world) gadgetsOf(group string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gadgets"}
}

func TestE2EConflictsInAVersionThatComesWithTheSourceAreFoundBeforehand(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	w.apply(ExitOK, "--app", "x", "-f", w.file("v1.yaml", gadgetCRD(group, "v1")+gadget(group, "v1", "{size: small, parts: [{name: a, weight: light}]}")))
	_, err := w.dynamic.Resource(w.gadgetsOf(group)).Namespace(w.namespace).Patch(t.Context(), "g", types.MergePatchType,
		[]byte(`{"spec":{"size":"large","parts":[{"name":"a","weight":"heavy"}]}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		t.Fatal(err)
	}
	crd := func() string {
		t.Helper()
		u, err := w.dynamic.Resource(crdsGVR).Get(t.Context(), "gadgets."+group, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return u.GetResourceVersion()
	}
	before := crd()
	// Of fields that the new version adds the old one knows nothing.
	v2 := w.file("v2.yaml", gadgetCRD(group, "v1", "v2")+gadget(group, "v2", "{size: small, color: red}"))
	r := w.apply(ExitFindings, "--app", "x", "-f", v2, "--preflight", "")
	if len(r.Conflicts) != 1 || r.Conflicts[0].Field != ".spec.size" || r.Conflicts[0].Owner != "kubectl-edit using "+group+"/v1" || r.Outcome != apply.OutcomeBlocked || len(r.Written) > 0 {
		t.Errorf("%+v", r)
	}
	if now := crd(); now != before {
		t.Error("the CRD was written although there is a conflict")
	}
	if _, state := w.inventory("x"); state != "applied" {
		t.Errorf("state %s", state)
	}
	if r = w.apply(ExitFindings, "--app", "x", "-f", v2, "--preflight", "", "--dry-run", "server"); len(r.Conflicts) != 1 {
		t.Errorf("%+v", r)
	}
	// Where only the new version can be asked, what was written is told, and the same command goes on.
	late := w.file("late.yaml", gadgetCRD(group, "v1", "v2")+gadget(group, "v2", "{parts: [{name: a, weight: light, color: red}]}"))
	r = w.apply(ExitFindings, "--app", "x", "-f", late, "--preflight", "")
	if len(r.Conflicts) != 1 || !strings.Contains(r.Conflicts[0].Field, "weight") || len(r.Written) != 1 || r.Written[0].Kind != "CustomResourceDefinition" {
		t.Errorf("%+v", r)
	}
	if now := crd(); now == before {
		t.Error("the CRD was not written")
	}
	if _, errs := w.run(ExitOK, "apply", "--app", "x", "-f", late, "--preflight", "", "--force-conflicts"); strings.Contains(errs, "note: ") {
		t.Errorf("stderr %s", errs)
	}
	if objects, state := w.inventory("x"); state != "applied" || len(objects) != 2 {
		t.Errorf("%s: %v", state, objects)
	}
}

// What was applied in one version, and changed by others in that version, is applied in another one that has more fields.
func TestE2EAnObjectMovesToAVersionWithMoreFields(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	w.apply(ExitOK, "--app", "x", "-f", w.file("v1.yaml", gadgetCRD(group, "v1")+gadget(group, "v1", "{size: small, parts: [{name: a, weight: light}]}")))
	_, err := w.dynamic.Resource(w.gadgetsOf(group)).Namespace(w.namespace).Patch(t.Context(), "g", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{FieldManager: "controller"})
	if err != nil {
		t.Fatal(err)
	}
	// Without the field that is dropped, with new ones at two depths.
	v2 := w.file("v2.yaml", gadgetCRD(group, "v1", "v2")+gadget(group, "v2", "{color: red, parts: [{name: a, weight: light, color: red}]}"))
	r := w.apply(ExitOK, "--app", "x", "-f", v2, "--preflight", "")
	if r.Summary["update"] != 2 {
		t.Errorf("%+v", r.Summary)
	}
	in := w.gadgetsOf(group)
	in.Version = "v2"
	u, err := w.dynamic.Resource(in).Namespace(w.namespace).Get(t.Context(), "g", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"color": "red", "parts": []any{map[string]any{"name": "a", "weight": "light", "color": "red"}}}
	if diff := cmp.Diff(want, u.Object["spec"]); diff != "" || u.GetLabels()["a"] != "b" {
		t.Errorf("labels %v: %s", u.GetLabels(), diff)
	}
	owners := map[string]string{}
	for _, m := range u.GetManagedFields() {
		owners[m.Manager] = m.APIVersion
	}
	if diff := cmp.Diff(map[string]string{"sluice": group + "/v2", "controller": group + "/v2"}, owners); diff != "" {
		t.Error(diff)
	}
	if r := w.apply(ExitOK, "--app", "x", "-f", v2, "--preflight", ""); r.Outcome != apply.OutcomeUnchanged {
		t.Errorf("again: %+v", r)
	}
	// Who still writes the old version is in nobody's way: a change is found, tried and applied.
	if _, err := w.dynamic.Resource(w.gadgetsOf(group)).Namespace(w.namespace).Patch(t.Context(), "g", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"c"}}}`), metav1.PatchOptions{FieldManager: "controller"}); err != nil {
		t.Fatal(err)
	}
	next := w.file("next.yaml", gadgetCRD(group, "v1", "v2")+gadget(group, "v2", "{color: blue}"))
	if out, errs := w.run(ExitFindings, "diff", "--app", "x", "-f", next); !strings.Contains(out, "+  color: blue") || !strings.Contains(errs, "still noted in v1") {
		t.Errorf("diff:\n%s%s", out, errs)
	}
	if r := w.apply(ExitOK, "--app", "x", "-f", next, "--preflight", ""); r.Summary["update"] != 1 {
		t.Errorf("%+v", r.Summary)
	}
}

func TestE2EWhatIsNotServedForAWhileIsNotForgotten(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	w.apply(ExitOK, "--app", "crds", "-f", w.file("crd.yaml", gadgetCRD(group, "v1")))
	w.apply(ExitOK, "--app", "x", "-f", w.file("x.yaml", configMap("a")+gadget(group, "v1", "{size: small}")))
	serve := func(served bool) {
		t.Helper()
		patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/served","value":%t}]`, served)
		if _, err := w.dynamic.Resource(crdsGVR).Patch(t.Context(), "gadgets."+group, types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	both := []string{"ConfigMap/a", "Gadget/g"}
	rest := w.file("rest.yaml", configMap("a"))
	serve(false)
	until(t, "it not to be served", func() error {
		if _, err := w.dynamic.Resource(w.gadgetsOf(group)).Namespace(w.namespace).Get(t.Context(), "g", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is: %w", err)
		}
		return nil
	})
	r := w.apply(ExitFindings, "--app", "x", "-f", rest, "--prune")
	if r.Summary["keep"] != 1 {
		t.Errorf("%+v", r)
	}
	if objects, state := w.inventory("x"); state != "applied" || !cmp.Equal(objects, both) {
		t.Errorf("%s: %v", state, objects)
	}
	if out, _ := w.run(ExitOK, "ls", "x"); !strings.Contains(out, "does not serve its kind") {
		t.Errorf("ls:\n%s", out)
	}
	// A deletion of the app keeps it as well.
	if out, _ := w.run(ExitFindings, "delete", "x"); !strings.Contains(out, "will be kept: Gadget."+group) {
		t.Errorf("delete:\n%s", out)
	}
	if objects, _ := w.inventory("x"); !cmp.Equal(objects, []string{"Gadget/g"}) {
		t.Errorf("%v", objects)
	}
	serve(true)
	until(t, "the object to be pruned", func() error {
		code, out, errs := sluice(t, "apply", "--kubeconfig", w.Kubeconfig, "-n", w.namespace, "--app", "x", "-f", rest, "--prune")
		if code != ExitOK {
			return fmt.Errorf("exit code %d\n%s%s", code, out, errs)
		}
		return nil
	})
	if _, err := w.dynamic.Resource(w.gadgetsOf(group)).Namespace(w.namespace).Get(t.Context(), "g", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
	// Where the CRD is gone the object is, too.
	w.apply(ExitOK, "--app", "x", "-f", w.file("x.yaml", configMap("a")+gadget(group, "v1", "{size: small}")))
	w.run(ExitOK, "delete", "crds", "--allow-delete-crds")
	if r := w.apply(ExitOK, "--app", "x", "-f", rest, "--prune"); r.Summary["forget"] != 1 {
		t.Errorf("%+v", r)
	}
	if objects, _ := w.inventory("x"); !cmp.Equal(objects, []string{"ConfigMap/a"}) {
		t.Errorf("%v", objects)
	}
}

func TestE2EPruningACRDNeedsToSeeItsObjects(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	group := w.namespace + ".example.com"
	user := "system:serviceaccount:" + w.namespace + ":default"
	name := w.namespace + "-pruner"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "create", "update", "patch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update", "delete"}},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get", "list", "create", "patch", "delete"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: w.namespace}},
	}
	if _, err := w.kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.apply(ExitOK, "--app", "x", "-f", w.file("v1.yaml", configMap("a")+gadgetCRD(group, "v1")))
	rest := w.file("rest.yaml", configMap("a", "k", "new"))
	args := []string{"apply", "--kubeconfig", w.impersonating(user), "-n", w.namespace, "--app", "x", "-f", rest, "--prune", "--preflight", "PermissionValidation"}
	before := w.versions()
	code, out, errs := sluice(t, args...)
	if code != ExitFindings || !strings.Contains(strings.Join(strings.Fields(out), " "), "may not list gadgets."+group+" in the cluster") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if diff := cmp.Diff(before, w.versions()); diff != "" {
		t.Error(diff)
	}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"gadgets"}, Verbs: []string{"list"}})
	if _, err := w.kube.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the permission to hold", func() error {
		if code, out, errs := sluice(t, args...); code != ExitOK {
			return fmt.Errorf("exit code %d\n%s%s", code, out, errs)
		}
		return nil
	})
	if _, err := w.dynamic.Resource(crdsGVR).Get(ctx, "gadgets."+group, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the CRD is still there: %v", err)
	}
}

func TestE2EACRDThatWasHandedOverSurvivesItsOldApp(t *testing.T) {
	for _, how := range []string{"prune", "delete"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			group := w.namespace + ".example.com"
			crd := w.file("crd.yaml", gadgetCRD(group, "v1"))
			w.apply(ExitOK, "--app", "old", "-f", w.file("old.yaml", configMap("a")+gadgetCRD(group, "v1")))
			for _, command := range []string{"apply", "diff"} {
				out, errs := w.run(ExitFindings, command, "--app", "new", "-f", crd)
				if !strings.Contains(out, "blocked: "+crd+":2: CustomResourceDefinition.apiextensions.k8s.io gadgets."+group+": belongs to the app "+w.namespace+"/old; ") ||
					!strings.Contains(errs, "1 object of other apps in the source; nothing was changed") {
					t.Errorf("%s: %s%s", command, out, errs)
				}
				if out, errs := w.run(ExitFindings, command, "--app", "new", "-f", crd, "--report", "sarif"); out != "" || !strings.Contains(errs, "blocked: ") {
					t.Errorf("%s: what is no report: %s%s", command, out, errs)
				}
				out, _ = w.run(ExitFindings, command, "--app", "new", "-f", crd, "-o", "json")
				var told struct{ Error, Outcome string }
				if err := json.Unmarshal([]byte(out), &told); err != nil || !strings.Contains(told.Error, "belongs to the app") || command == "apply" && told.Outcome != apply.OutcomeBlocked {
					t.Errorf("%s: %v: %s", command, err, out)
				}
			}
			w.apply(ExitOK, "--app", "new", "-f", crd, "--force-conflicts")
			old, err := w.dynamic.Resource(crdsGVR).Get(t.Context(), "gadgets."+group, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if how == "prune" {
				r := w.apply(ExitOK, "--app", "old", "-f", w.file("rest.yaml", configMap("a")), "--prune", "--allow-delete-crds")
				if r.Summary["forget"] != 1 || r.Summary["delete"] != 0 {
					t.Errorf("%+v", r.Summary)
				}
				if objects, _ := w.inventory("old"); !cmp.Equal(objects, []string{"ConfigMap/a"}) {
					t.Errorf("%v", objects)
				}
			} else {
				w.run(ExitOK, "delete", "old", "--allow-delete-crds")
			}
			now, err := w.dynamic.Resource(crdsGVR).Get(t.Context(), "gadgets."+group, metav1.GetOptions{})
			if err != nil || now.GetUID() != old.GetUID() || now.GetDeletionTimestamp() != nil {
				t.Errorf("%v, %v", now, err)
			}
			if objects, state := w.inventory("new"); state != "applied" || !slices.Equal(objects, []string{"CustomResourceDefinition/gadgets." + group}) {
				t.Errorf("%s: %v", state, objects)
			}
		})
	}
}

func TestE2EDiffAndDryRunTellConflictsAsApplyDoes(t *testing.T) {
	w := newWorld(t)
	w.apply(ExitOK, "--app", "x", "-f", w.file("a.yaml", configMap("a", "k", "1")+configMap("b")))
	_, err := w.kube.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"k":"edited"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		t.Fatal(err)
	}
	next := w.file("next.yaml", configMap("a", "k", "2")+configMap("b", "k", "2"))
	before := w.versions()
	out, errs := w.run(ExitFindings, "diff", "--app", "x", "-f", next)
	for _, want := range []string{"next.yaml:2: ConfigMap " + w.namespace + "/a: .data.k is owned by kubectl-edit using v1", `+  k: "2"`, "1 to be updated"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "--force-conflicts takes over") {
		t.Errorf("stderr %s", errs)
	}
	out, _ = w.run(ExitFindings, "diff", "--app", "x", "-f", next, "-o", "json")
	var r apply.DiffResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Conflicts) != 1 || r.Conflicts[0].Field != ".data.k" || len(r.Differences) != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if r := w.apply(ExitFindings, "--app", "x", "-f", next, "--dry-run", "server"); r.Outcome != apply.OutcomeBlocked || len(r.Conflicts) != 1 {
		t.Errorf("%+v", r)
	}
	w.apply(ExitFindings, "--app", "x", "-f", next)
	// Where something else is wrong as well, none of them could do it.
	wrong := w.file("wrong.yaml", configMap("a", "k", "2")+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {k: {no: text}}\n")
	w.run(ExitFailed, "diff", "--app", "x", "-f", wrong)
	w.apply(ExitFailed, "--app", "x", "-f", wrong, "--dry-run", "server")
	if diff := cmp.Diff(before, w.versions()); diff != "" {
		t.Error(diff)
	}
	w.run(ExitOK, "diff", "--app", "x", "-f", w.file("same.yaml", configMap("b")))
}

// Who may not read CRDs can delete an app although the CRD of one of its objects is gone.
func TestE2EAnAppIsDeletedAfterTheCRDThatMayNotBeRead(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	group := w.namespace + ".example.com"
	user := "system:serviceaccount:" + w.namespace + ":default"
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "user"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", group}, Resources: []string{"configmaps", "gadgets"}, Verbs: []string{"*"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}},
	}}
	if _, err := w.kube.RbacV1().Roles(w.namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := w.kube.RbacV1().RoleBindings(w.namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "user"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "user"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.namespace, Name: "default"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := w.impersonating(user)
	as := func(want int, command string, args ...string) string {
		t.Helper()
		code, out, errs := sluice(t, append([]string{command, "--kubeconfig", kubeconfig, "-n", w.namespace}, args...)...)
		if code != want {
			t.Fatalf("sluice %s: exit code %d, want %d\n%s%s", command, code, want, out, errs)
		}
		return out
	}
	w.apply(ExitOK, "--app", "crds", "-f", w.file("crd.yaml", gadgetCRD(group, "v1")))
	x := w.file("x.yaml", configMap("a")+gadget(group, "v1", "{size: small}"))
	until(t, "the permission to hold", func() error {
		if code, out, errs := sluice(t, "apply", "--kubeconfig", kubeconfig, "-n", w.namespace, "--app", "x", "-f", x); code != ExitOK {
			return fmt.Errorf("exit code %d\n%s%s", code, out, errs)
		}
		return nil
	})
	w.run(ExitOK, "delete", "crds", "--allow-delete-crds")
	until(t, "the kind not to be served", func() error {
		if _, err := w.kube.Discovery().ServerResourcesForGroupVersion(group + "/v1"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is: %w", err)
		}
		return nil
	})
	// A prune goes on with the inventory, and waits for somebody who can tell.
	rest := w.file("rest.yaml", configMap("a"))
	if out := as(ExitFindings, "apply", "--app", "x", "-f", rest, "--prune"); !strings.Contains(out, "a user with the right to get it can prune") {
		t.Errorf("prune: %s", out)
	}
	if objects, _ := w.inventory("x"); !cmp.Equal(objects, []string{"ConfigMap/a", "Gadget/g"}) {
		t.Errorf("after a prune: %v", objects)
	}
	// What stands in for the CRD, and cannot be reached, is no reason to forget anything.
	services := w.dynamic.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	_, err = services.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1." + group},
		"spec": map[string]any{
			"group": group, "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": w.namespace, "name": "nowhere"},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the aggregated API to be known", func() error {
		if _, err := w.kube.Discovery().ServerResourcesForGroupVersion(group + "/v1"); !apierrors.IsServiceUnavailable(err) {
			return fmt.Errorf("it is: %w", err)
		}
		return nil
	})
	as(ExitFailed, "delete", "x")
	if objects, _ := w.inventory("x"); !cmp.Equal(objects, []string{"ConfigMap/a", "Gadget/g"}) {
		t.Errorf("while an aggregated API is down: %v", objects)
	}
	if err := services.Delete(ctx, "v1."+group, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the kind not to be served again", func() error {
		if _, err := w.kube.Discovery().ServerResourcesForGroupVersion(group + "/v1"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is: %w", err)
		}
		return nil
	})
	out := as(ExitOK, "delete", "x")
	if !strings.Contains(out, "forgotten: Gadget."+group+" "+w.namespace+"/g: the cluster no longer serves its kind, so it was deleted with its CRD") || !strings.Contains(out, "1 deleted, 0 kept") {
		t.Errorf("delete: %s", out)
	}
	if objects, _ := w.inventory("x"); objects != nil {
		t.Errorf("the inventory has %v", objects)
	}
}

// What converts stored objects comes with the same source, after the CRD.
func TestE2EACRDWhoseConversionIsNotThereYetStopsNothing(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	w.apply(ExitOK, "--app", "x", "-f", w.file("a.yaml", gadgetCRD(group, "v1")+gadget(group, "v1", "{size: small}")))
	crd := strings.Replace(gadgetCRD(group, "v1", "v2"), "  scope: Namespaced\n", `  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: `+w.namespace+`, name: later}}}
`, 1)
	source := w.file("b.yaml", crd+gadget(group, "v1", "{size: small}")+configMap("later"))
	if r := w.apply(ExitFindings, "--app", "x", "-f", source); r.Outcome != "blocked" || !strings.Contains(string(r.Report), "webhook") {
		t.Errorf("the preflight does not object to a webhook that nobody has run: %s %s", r.Outcome, r.Report)
	}
	w.apply(ExitOK, "--app", "x", "--preflight=", "-f", source)
	if got := w.configMaps(w.namespace); !slices.Contains(got, "later") {
		t.Errorf("there are %v", got)
	}
	// A kind that cannot be listed would keep every namespace of the cluster from being deleted.
	w.apply(ExitOK, "--app", "x", "--preflight=", "-f", w.file("c.yaml", gadgetCRD(group, "v1", "v2")+gadget(group, "v1", "{size: small}")))
	until(t, "the objects to be listed", func() error {
		_, err := w.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v2", Resource: "gadgets"}).List(t.Context(), metav1.ListOptions{})
		return err
	})
}

// The conversion webhook of a CRD is dead, so nobody can read its objects. The source that mends the CRD is applied, and the rest of an app is
// pruned and deleted: what cannot be read stays, and stays recorded.
func TestE2EASourceMendsTheCRDOfItsObjects(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	crd := gadgetCRD(group, "v1", "v2")
	dead := strings.Replace(crd, "  scope: Namespaced\n", `  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/none"}}
`, 1)
	mended := strings.Replace(crd, "  scope: Namespaced\n", "  scope: Namespaced\n  conversion: {strategy: None}\n", 1)
	w.run(ExitOK, "apply", "--app", "crd", "--preflight=", "-f", w.file("crd.yaml", gadgetCRD(group, "v1")))
	w.apply(ExitOK, "--app", "x", "-f", w.file("a.yaml", gadget(group, "v1", "{size: small}")+configMap("a")+configMap("b")))
	broken := func() {
		t.Helper()
		if _, errs, err := w.Kubectl(t, dead, "apply", "-f", "-"); err != nil {
			t.Fatalf("%v: %s", err, errs)
		}
		until(t, "the webhook to be called", func() error {
			_, err := w.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v2", Resource: "gadgets"}).List(t.Context(), metav1.ListOptions{})
			if err == nil {
				return errors.New("the objects can be read")
			}
			return nil
		})
	}
	broken()
	// Without the CRD in the source, only what is not of its kind can be brought.
	w.run(ExitFailed, "apply", "--app", "x", "-f", w.file("b.yaml", gadget(group, "v2", "{size: small}")+configMap("a")))
	r := w.apply(ExitFindings, "--app", "x", "--prune", "--max-deletes", "3", "--wait=false", "-f", w.file("c.yaml", configMap("a")))
	if objects, _ := w.inventory("x"); !slices.Contains(objects, "Gadget/g") || slices.Contains(objects, "ConfigMap/b") {
		t.Errorf("%v recorded: %+v", objects, r)
	}
	_, errs := w.run(ExitFindings, "delete", "x", "--yes")
	if objects, _ := w.inventory("x"); !slices.Equal(objects, []string{"Gadget/g"}) {
		t.Errorf("%v recorded: %s", objects, errs)
	}
	w.apply(ExitOK, "--app", "x", "--preflight=", "--force-conflicts", "--wait=false", "-f", w.file("e.yaml", mended+gadget(group, "v2", "{size: large}")+configMap("a")))
	got, err := w.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v2", Resource: "gadgets"}).Namespace(w.namespace).Get(t.Context(), "g", metav1.GetOptions{})
	if err != nil || !strings.Contains(fmt.Sprint(got.Object["spec"]), "large") {
		t.Errorf("%v, %v", got, err)
	}
}
