//go:build e2e

package enforcement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"sluice.dev/feature/policy"
)

const claimsCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.claims.e2e.dev}
spec:
  group: claims.e2e.dev
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: &subresources {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: &schema
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {a: {type: string}, b: {type: string}, replicas: {type: integer, format: int32}}}
          status: {type: object, properties: {phase: {type: string}, replicas: {type: integer, format: int32}}}
  - name: v1alpha1
    served: true
    storage: false
    subresources: *subresources
    schema: *schema
`

// forged is what a client sends to make believe that an object was written in the closed version.
func forged() map[string]any {
	return map[string]any{
		"manager": "forger", "operation": "Update", "apiVersion": "claims.e2e.dev/v1alpha1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
		"fieldsV1": map[string]any{"f:spec": map[string]any{"f:a": map[string]any{}, "f:b": map[string]any{}, "f:replicas": map[string]any{}}},
	}
}

// TestE2ENobodyClaimsAWriteInAClosedVersion has clients forge managed fields in every way that there is: none of them can write in
// a closed version afterwards, and who could before still can.
func TestE2ENobodyClaimsAWriteInAClosedVersion(t *testing.T) {
	t.Parallel()
	s := connect(t)
	ctx := t.Context()
	s.namespace("claims-system", nil)
	s.settings("claims-system", nil)
	s.applyYAML(claimsCRD)
	set, err := policy.Compile(ctx, model(t, "{metadata: {name: claims}, spec: {release: v1.5.0, configMap: {namespace: claims-system, name: feature-flags}}}", `
- {gate: Preview, parts: [{group: claims.e2e.dev, resource: things, versions: [v1alpha1], wholeVersion: true}]}
`, claimsCRD), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]dynamic.ResourceInterface{}
	for _, v := range []string{"v1", "v1alpha1"} {
		of[v], _ = s.as("", schema.GroupVersionResource{Group: "claims.e2e.dev", Version: v, Resource: "things"}, "claims-system")
	}
	object := func(version, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: read(t, "{apiVersion: claims.e2e.dev/"+version+", kind: Thing, spec: {a: x, b: x, replicas: 1}, status: {phase: p}}")}
		u.SetName(name)
		return u
	}
	create := func(version, name string) *unstructured.Unstructured {
		t.Helper()
		u, err := of[version].Create(ctx, object(version, name), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	// What was written in the version while it was open.
	create("v1alpha1", "legitimate")
	create("v1alpha1", "cleared")
	s.enforce(set)
	defer s.release("claims")
	refused := func(err error, words ...string) error {
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("it is not refused: %w", err)
		}
		for _, w := range append(words, `needs feature "Preview" of component "claims"`) {
			if !strings.Contains(err.Error(), w) {
				return fmt.Errorf("%q is not told: %w", w, err)
			}
		}
		return nil
	}
	until(t, "the version to be closed", func(ctx context.Context) error {
		_, err := of["v1alpha1"].Create(ctx, object("v1alpha1", "x"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return refused(err, "apiVersion: claims.e2e.dev/v1alpha1 is alpha")
	})
	claim := func(u *unstructured.Unstructured) *unstructured.Unstructured {
		metadata, _ := u.Object["metadata"].(map[string]any)
		entries, _ := metadata["managedFields"].([]any)
		metadata["managedFields"] = append(slices.Clone(entries), forged())
		return u
	}
	probe := create("v1", "probe")
	claimed := func(ctx context.Context) error {
		_, err := of["v1"].Update(ctx, claim(probe.DeepCopy()), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	until(t, "claims to be refused", func(ctx context.Context) error {
		return refused(claimed(ctx), "metadata.managedFields: claims.e2e.dev/v1alpha1 is alpha")
	})
	patch := func(version, name, text string, sub ...string) error {
		_, err := of[version].Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{FieldManager: "patcher"}, sub...)
		return err
	}
	// stays tells that the version is still closed for an object.
	stays := func(what, name string) {
		t.Helper()
		if err := refused(patch("v1alpha1", name, `{"spec":{"a":"written in it"}}`), "apiVersion: "); err != nil {
			u, _ := of["v1"].Get(ctx, name, metav1.GetOptions{})
			t.Errorf("%s: what is closed can be written: %v\n%v", what, err, u)
		}
	}
	scale := func(version string, u *unstructured.Unstructured) error {
		g, err := of[version].Get(ctx, u.GetName(), metav1.GetOptions{}, "scale")
		if err != nil {
			return err
		}
		entry := forged()
		entry["apiVersion"] = "autoscaling/v1"
		entry["fieldsV1"] = map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}}
		metadata, _ := g.Object["metadata"].(map[string]any)
		entries, _ := metadata["managedFields"].([]any)
		metadata["managedFields"] = append(slices.Clone(entries), entry, forged())
		if err := unstructured.SetNestedField(g.Object, int64(1), "spec", "replicas"); err != nil {
			return err
		}
		_, err = of[version].Update(ctx, g, metav1.UpdateOptions{FieldManager: "forger"}, "scale")
		return err
	}
	for i, attack := range []struct {
		what  string
		do    func(u *unstructured.Unstructured) error
		words []string // of the refusal; nil: it passes, and is of no use
	}{
		{"an update of the other version", func(u *unstructured.Unstructured) error {
			_, err := of["v1"].Update(ctx, claim(u), metav1.UpdateOptions{})
			return err
		}, []string{"metadata.managedFields: "}},
		{"a patch of the other version", func(u *unstructured.Unstructured) error {
			_, err := of["v1"].Patch(ctx, u.GetName(), types.JSONPatchType,
				[]byte(`[{"op":"add","path":"/metadata/managedFields/-","value":`+jsonOf(t, forged())+`}]`), metav1.PatchOptions{})
			return err
		}, []string{"metadata.managedFields: "}},
		{"the status in the other version", func(u *unstructured.Unstructured) error {
			_, err := of["v1"].UpdateStatus(ctx, claim(u), metav1.UpdateOptions{})
			return err
		}, nil},
		{"the status in the version", func(u *unstructured.Unstructured) error {
			u.SetAPIVersion("claims.e2e.dev/v1alpha1")
			_, err := of["v1alpha1"].UpdateStatus(ctx, claim(u), metav1.UpdateOptions{})
			return err
		}, nil},
		{"the scale in the other version", func(u *unstructured.Unstructured) error { return scale("v1", u) }, nil},
		{"the scale in the version", func(u *unstructured.Unstructured) error { return scale("v1alpha1", u) }, nil},
		{"owning what is there", func(u *unstructured.Unstructured) error {
			_, err := of["v1alpha1"].Apply(ctx, u.GetName(), object("v1alpha1", u.GetName()), metav1.ApplyOptions{FieldManager: "applier", Force: true})
			return err
		}, []string{"apiVersion: "}},
		{"owning labels", func(u *unstructured.Unstructured) error {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "claims.e2e.dev/v1alpha1", "kind": "Thing"}}
			o.SetLabels(map[string]string{"a": "b"})
			_, err := of["v1alpha1"].Apply(ctx, u.GetName(), o, metav1.ApplyOptions{FieldManager: "applier", Force: true})
			return err
		}, nil},
		{"labels", func(u *unstructured.Unstructured) error {
			return patch("v1alpha1", u.GetName(), `{"metadata":{"labels":{"a":"b"}}}`)
		}, nil},
		{"an update that changes nothing", func(u *unstructured.Unstructured) error {
			u.SetAPIVersion("claims.e2e.dev/v1alpha1")
			_, err := of["v1alpha1"].Update(ctx, u, metav1.UpdateOptions{})
			return err
		}, nil},
		{"the status", func(u *unstructured.Unstructured) error {
			return patch("v1alpha1", u.GetName(), `{"status":{"phase":"q"}}`, "status")
		}, nil},
		{"the scale", func(u *unstructured.Unstructured) error {
			return patch("v1alpha1", u.GetName(), `{"spec":{"replicas":3}}`, "scale")
		}, nil},
	} {
		u := create("v1", fmt.Sprintf("attack-%d", i))
		err := attack.do(u)
		if attack.words == nil && err != nil {
			t.Errorf("%s: %v", attack.what, err)
		}
		if attack.words != nil {
			if err := refused(err, attack.words...); err != nil {
				t.Errorf("%s: %v", attack.what, err)
			}
		}
		stays(attack.what, u.GetName())
	}

	// Of what a new object claims the API server keeps nothing: who creates it owns its fields.
	if _, err := of["v1"].Create(ctx, claim(object("v1", "new")), metav1.CreateOptions{}); err == nil {
		stays("a new object", "new")
	} else if err := refused(err, "metadata.managedFields: "); err != nil {
		t.Error(err)
	}
	for _, write := range []struct{ what, version, patch, sub string }{
		{"in the version", "v1alpha1", `{"spec":{"a":"y"}}`, ""},
		{"in the other", "v1", `{"spec":{"a":"z"}}`, ""},
		{"the status", "v1alpha1", `{"status":{"phase":"q"}}`, "status"},
		{"the scale", "v1alpha1", `{"spec":{"replicas":3}}`, "scale"},
		{"in the version again", "v1alpha1", `{"spec":{"a":"x"}}`, ""},
	} {
		var sub []string
		if write.sub != "" {
			sub = []string{write.sub}
		}
		if err := patch(write.version, "legitimate", write.patch, sub...); err != nil {
			t.Errorf("an object that was written in it, %s: %v", write.what, err)
		}
	}
	// The limit: who may write the object can take the ratchet away.
	if err := patch("v1", "cleared", `{"metadata":{"managedFields":[{}]}}`); err != nil {
		t.Error(err)
	}
	stays("cleared", "cleared")
	s.settings("claims-system", map[string]string{"preview": "true"})
	until(t, "the version to be open", func(context.Context) error { return patch("v1alpha1", "cleared", `{"spec":{"a":"y"}}`) })
	until(t, "claims to be nobody's business", claimed)
}
