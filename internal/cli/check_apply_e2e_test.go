//go:build e2e

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"sluice.dev/report"
	"sluice.dev/tools/kube"
)

// TestE2EObjectsToWhichNothingCanBeApplied holds findings about applies against the API server: an object whose owners are noted in a version that
// is removed, or that a new webhook has to convert, one that has a value of another type, and one with a list that repeats an item. Each is found
// before the upgrade, and after it the apply is refused in these words.
func TestE2EObjectsToWhichNothingCanBeApplied(t *testing.T) {
	crdOf := func(versions ...string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: movers.owners.test}\nspec:\n  group: owners.test\n  scope: Namespaced\n" +
			"  names: {kind: Mover, listKind: MoverList, plural: movers, singular: mover}\n  versions: [" + strings.Join(versions, ", ") + "]\n"
	}
	field := func(kind string) string { return "properties: {d: {type: " + kind + "}}" }
	unserved := crdOf(schemaVersion("v1", true, true, field("string")), schemaVersion("v1alpha1", false, false, field("string")))
	tests := map[string]struct {
		old, between, upgrade, rule, says string
		value                             string // of the field; "x" if empty
		manager                           string // whose apply is refused; the second if empty
	}{
		"a version that a new webhook converts": {
			old:     crdOf(schemaVersion("v1", true, true, field("string")), schemaVersion("v1alpha1", false, true, field("string"))),
			between: unserved,
			upgrade: unserved + "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: nobody, namespace: default}}}}\n",
			rule:    "owners-in-removed-version", says: "conversion webhook for owners.test/v1",
		},
		"an item twice": {
			old:     crdOf(schemaVersion("v1", true, true, "properties: {d: {type: array, items: {type: string}}}"), schemaVersion("v1alpha1", false, true, "properties: {d: {type: array, items: {type: string}}}")),
			upgrade: crdOf(schemaVersion("v1", true, true, "properties: {d: {type: array, x-kubernetes-list-type: set, items: {type: string}}}"), schemaVersion("v1alpha1", false, true, "properties: {d: {type: array, x-kubernetes-list-type: set, items: {type: string}}}")),
			rule:    "stored-objects-ratcheted", says: "duplicate entries", value: `["x", "x"]`, manager: "first",
		},
		"a version that owners name": {
			old:     crdOf(schemaVersion("v1", true, true, field("string")), schemaVersion("v1alpha1", false, true, field("string"))),
			upgrade: crdOf(schemaVersion("v1", true, true, field("string"))), rule: "owners-in-removed-version", says: "request to convert CR to an invalid group/version",
		},
		"a value of another type": {
			old:     crdOf(schemaVersion("v1", true, true, field("string")), schemaVersion("v1alpha1", false, true, field("string"))),
			upgrade: crdOf(schemaVersion("v1", true, true, field("integer")), schemaVersion("v1alpha1", false, true, field("integer"))), rule: "stored-objects-unappliable", says: "expected numeric",
		},
	}
	c := shared.Get(t)
	k, err := kube.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		ctx := t.Context()
		dir := t.TempDir()
		oldFile, newFile := filepath.Join(dir, "old.yaml"), filepath.Join(dir, "new.yaml")
		for file, text := range map[string]string{oldFile: tt.old, newFile: tt.upgrade} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.Apply(ctx, oldFile, false); err != nil {
			t.Fatal(err)
		}
		apply := func(version, manager, labels string) error {
			text := `{"apiVersion": "owners.test/` + version + `", "kind": "Mover", "metadata": {"name": "m"` + labels + `}`
			if manager == "first" {
				text += `, "spec": {"d": ` + cmp.Or(tt.value, `"x"`) + `}`
			}
			_, err := objects.Resource(schema.GroupVersionResource{Group: "owners.test", Version: version, Resource: "movers"}).Namespace("default").
				Patch(ctx, "m", types.ApplyPatchType, []byte(text+"}"), metav1.PatchOptions{FieldManager: manager})
			return err
		}
		if err := apply("v1alpha1", "first", ""); err != nil {
			t.Fatal(err)
		}
		if err := apply("v1", "second", `, "labels": {"a": "b"}`); err != nil {
			t.Fatal(err)
		}
		if tt.between != "" {
			betweenFile := filepath.Join(dir, "between.yaml")
			if err := os.WriteFile(betweenFile, []byte(tt.between), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := k.Apply(ctx, betweenFile, false); err != nil {
				t.Fatal(err)
			}
		}
		code, out, errs := sluice(t, "check", "--kubeconfig", c.Kubeconfig, "-o", "json", "--mode", "stored", newFile)
		var doc struct{ CRDs []report.CRD }
		if err := json.Unmarshal([]byte(out), &doc); err != nil || code != ExitFindings {
			t.Fatalf("%s: exit code %d: %v %s", name, code, err, errs)
		}
		found := false
		for _, f := range doc.CRDs[0].Findings {
			found = found || f.Rule == tt.rule && f.Severity == report.Fail && f.Objects != nil && f.Objects.Affected == 1
		}
		if got := doc.CRDs[0].Objects; !found || got == nil || got.Unappliable != 1 && tt.value == "" {
			t.Errorf("%s is not found: %+v\n%s", name, got, out)
		}
		if err := k.Apply(ctx, newFile, false); err != nil {
			t.Fatal(err)
		}
		var refused error
		_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
			refused = apply("v1", cmp.Or(tt.manager, "second"), `, "labels": {"a": "c"}`) // the API server serves the new CRD in a moment
			return refused != nil, nil
		})
		if refused == nil || !strings.Contains(refused.Error(), tt.says) {
			t.Errorf("%s: the apply ends with %v, want %q", name, refused, tt.says)
		}
		if _, err := objects.Resource(schema.GroupVersionResource{Group: "owners.test", Version: "v1", Resource: "movers"}).Namespace("default").
			Patch(ctx, "m", types.MergePatchType, []byte(`{"metadata": {"labels": {"a": "e"}}}`), metav1.PatchOptions{}); err != nil {
			t.Errorf("%s: an update is refused, too: %v", name, err)
		}
		if err := k.DeleteCRD(context.WithoutCancel(ctx), "movers.owners.test"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestE2EAnApplyOfTheCRDIsTried: a manifest without the conversion whose CA an injector wrote passes as an update, and nobody can apply it. check
// says so, names the owner, and the command that it prints helps.
func TestE2EAnApplyOfTheCRDIsTried(t *testing.T) {
	c, ctx := shared.Get(t), t.Context()
	objects, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	crds := objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const name = "certs.injected.test"
	text := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + name + "}\nspec:\n  group: injected.test\n  scope: Namespaced\n" +
		"  names: {kind: Cert, listKind: CertList, plural: certs, singular: cert}\n  versions: [" +
		schemaVersion("v1", true, true, "properties: {d: {type: string}}") + ", " + schemaVersion("v1beta1", false, true, "properties: {d: {type: string}}") + "]\n"
	apply := func(conversion string) error {
		_, err := crds.Patch(ctx, name, types.ApplyPatchType, []byte(text+conversion), metav1.PatchOptions{FieldManager: "tool", Force: new(true)})
		return err
	}
	t.Cleanup(func() { _ = crds.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}) })
	if err := apply("  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: w, namespace: default}}}}\n"); err != nil {
		t.Fatal(err)
	}
	ca, err := json.Marshal(c.Config().CAData)
	if err != nil {
		t.Fatal(err)
	}
	inject := `[{"op": "add", "path": "/spec/conversion/webhook/clientConfig/caBundle", "value": ` + string(ca) + `}]`
	if _, err := crds.Patch(ctx, name, types.JSONPatchType, []byte(inject), metav1.PatchOptions{FieldManager: "injector"}); err != nil {
		t.Fatal(err)
	}
	for conversion, says := range map[string]string{
		"": "spec.conversion.strategy: Required value", "  conversion: {strategy: None}\n": "spec.conversion.webhookClientConfig: Forbidden",
	} {
		file := filepath.Join(t.TempDir(), "new.yaml")
		if err := os.WriteFile(file, []byte(text+conversion), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, _ := sluice(t, "check", "--kubeconfig", c.Kubeconfig, file)
		for _, want := range []string{says, "in a server-side apply by tool", "belong to injector", `[{"op":"remove","path":"/spec/conversion"}]`} {
			if code != ExitFindings || !strings.Contains(out, want) {
				t.Errorf("%q: exit code %d, without %q:\n%s", conversion, code, want, out)
			}
		}
		if err := apply(conversion); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: the apply ends with %v, want %q", conversion, err, says)
		}
	}
	if _, err := crds.Patch(ctx, name, types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/conversion"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "new.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := sluice(t, "check", "--kubeconfig", c.Kubeconfig, file); code != 0 {
		t.Errorf("after the command: exit code %d\n%s%s", code, out, errs)
	}
	if err := apply(""); err != nil {
		t.Error(err)
	}
}
