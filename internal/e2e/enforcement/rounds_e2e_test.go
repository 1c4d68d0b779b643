//go:build e2e

package enforcement

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/feature/policy"
)

// roundCRDs are two kinds: a webhook converts between the versions of widgets, in which fields have other names; those of gadgets are
// alike. %[1]s stands for how to convert, %[2]s and %[3]s for one more version of each.
const roundCRDs = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.round.e2e.dev}
spec:
  group: round.e2e.dev
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  conversion: %[1]s
  versions:
  - name: v1
    served: true
    storage: true
    subresources: &subresources {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: &v1
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              plain: {type: string}
              alpha: {type: string}
              replicas: {type: integer, format: int32}
              items:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, extra: {type: string}}}
              steps: {type: array, items: {type: object, properties: {image: {type: string}, secret: {type: string}}}}
              env: {type: object, additionalProperties: {type: object, properties: {value: {type: string}, secret: {type: string}}}}
              modes: {type: array, x-kubernetes-list-type: set, items: {type: string}}
          status: {type: object, properties: {phase: {type: string}, replicas: {type: integer, format: int32}}}
  - name: v2
    served: true
    storage: false
    subresources: *subresources
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              plain: {type: string}
              beta: {type: string}
              replicas: {type: integer, format: int32}
              parts:
                type: array
                items: {type: object, required: [name], properties: {name: {type: string}, extra: {type: string}}}
          status: {type: object, properties: {phase: {type: string}, replicas: {type: integer, format: int32}}}
%[2]s
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.round.e2e.dev}
spec:
  group: round.e2e.dev
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: &gadget
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {plain: {type: string}, alpha: {type: string}, dropped: {type: string}}}}}
  - name: v1beta1
    served: true
    storage: false
    schema: *gadget
%[3]s
`

const roundFeatures = `
- {gate: Alpha, parts: [{group: round.e2e.dev, resource: widgets, field: spec.alpha}, {group: round.e2e.dev, resource: gadgets, field: spec.alpha}]}
- {gate: Replicas, parts: [{group: round.e2e.dev, resource: widgets, field: spec.replicas}]}
- {gate: Extra, parts: [{group: round.e2e.dev, resource: widgets, field: "spec.items[*].extra"}]}
- {gate: Step, parts: [{group: round.e2e.dev, resource: widgets, field: "spec.steps[*].secret"}]}
- {gate: Secret, parts: [{group: round.e2e.dev, resource: widgets, field: "spec.env[*].secret"}]}
- {gate: Turbo, parts: [{group: round.e2e.dev, resource: widgets, field: "spec.modes[*]", values: [turbo]}]}
- {gate: Dropped, whenDisabled: Drop, parts: [{group: round.e2e.dev, resource: gadgets, field: spec.dropped}]}
`

// renamed are the fields of widgets that are called otherwise in v2.
var renamed = map[string]string{"alpha": "beta", "items": "parts"}

// neighbours serves what others run beside the gates: a conversion webhook, and one that changes objects after all policies have.
func neighbours(t *testing.T) (conversion string, mutator admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/convert", func(w http.ResponseWriter, r *http.Request) {
		var review map[string]any
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		uid, _, _ := unstructured.NestedString(review, "request", "uid")
		want, _, _ := unstructured.NestedString(review, "request", "desiredAPIVersion")
		objects, _, _ := unstructured.NestedSlice(review, "request", "objects")
		for _, o := range objects {
			u := unstructured.Unstructured{Object: o.(map[string]any)} //nolint:errcheck,forcetypeassert // a test
			spec, _, _ := unstructured.NestedMap(u.Object, "spec")
			for one, other := range renamed {
				from, to := one, other
				if !strings.HasSuffix(want, "/v2") {
					from, to = other, one
				}
				if v, ok := spec[from]; ok && u.GetAPIVersion() != want {
					delete(spec, from)
					spec[to] = v
				}
			}
			u.SetAPIVersion(want)
			if spec != nil {
				u.Object["spec"] = spec
			}
		}
		review["response"] = map[string]any{"uid": uid, "result": map[string]any{"status": "Success"}, "convertedObjects": objects}
		delete(review, "request")
		_ = json.NewEncoder(w).Encode(review) //nolint:errchkjson // the API server would tell
	})
	mux.HandleFunc("/mutate", func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var u unstructured.Unstructured
		if err := u.UnmarshalJSON(review.Request.Object.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		resp := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if field := u.GetLabels()["later-sets"]; field != "" {
			resp.Patch = []byte(`[{"op":"add","path":"/spec/` + field + `","value":"late"}]`)
			resp.PatchType = new(admissionv1.PatchTypeJSONPatch)
		}
		review.Response, review.Request = resp, nil
		_ = json.NewEncoder(w).Encode(review) //nolint:errchkjson // the API server would tell
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	conversion = fmt.Sprintf("{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: %q, caBundle: %q}}}", server.URL+"/convert", base64.StdEncoding.EncodeToString(bundle))
	return conversion, admissionregistrationv1.WebhookClientConfig{URL: new(server.URL + "/mutate"), CABundle: bundle}
}

// TestE2EWaysRound tries to get what is off into the store, in every way that we know of.
func TestE2EWaysRound(t *testing.T) {
	t.Parallel()
	s := connect(t)
	ctx := t.Context()
	const namespace = "rounds"
	s.namespace(namespace, nil)
	conversion, mutator := neighbours(t)
	crds := fmt.Sprintf(roundCRDs, conversion, "", "")
	s.applyYAML(crds)
	m := model(t, "{metadata: {name: round}, spec: {release: v1.0.0}}", roundFeatures, strings.Split(crds, "\n---\n")...)
	set, err := policy.Compile(ctx, m, policy.Options{Kubernetes: "1.36"})
	if err != nil {
		t.Fatal(err)
	}
	if set.Webhook {
		t.Errorf("something takes the webhook: %+v", set.Enforced)
	}
	of := func(resource, version string) dynamic.ResourceInterface {
		return s.dynamic.Resource(schema.GroupVersionResource{Group: "round.e2e.dev", Version: version, Resource: resource}).Namespace(namespace)
	}
	object := func(kind, version, name, spec string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: read(t, fmt.Sprintf("{apiVersion: round.e2e.dev/%s, kind: %s, metadata: {name: %s}, spec: %s}", version, kind, name, spec))}
	}
	// What a backup has: an object that was stored while all was open.
	const everything = "{plain: p, alpha: x, items: [{name: a, extra: x}], env: {A: {secret: x}}, modes: [turbo]}"
	backup, err := of("widgets", "v1").Create(ctx, object("Widget", "v1", "backup", everything), metav1.CreateOptions{})
	if err == nil {
		err = of("widgets", "v1").Delete(ctx, "backup", metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	// Ordered by name it comes after ours, and webhooks come after policies in any case.
	hooks := s.clients.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err = hooks.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "zz-round"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "later.round.e2e.dev", ClientConfig: mutator, SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "later-sets", Operator: metav1.LabelSelectorOpExists}}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"round.e2e.dev"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hooks.Delete(context.WithoutCancel(ctx), "zz-round", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	s.enforce(set)
	defer s.release("round")
	until(t, "the policies", func(ctx context.Context) error {
		_, err := of("widgets", "v1").Create(ctx, object("Widget", "v1", "probe", everything), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		_, also := of("gadgets", "v1").Create(ctx, object("Gadget", "v1", "probe", "{alpha: x}"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		u, dropped := of("gadgets", "v1").Create(ctx, object("Gadget", "v1", "probe", "{dropped: x}"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		_, scaled := of("widgets", "v1").Create(ctx, object("Widget", "v1", "probe", "{replicas: 3}"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsInvalid(err) || !apierrors.IsInvalid(also) || !apierrors.IsInvalid(scaled) || dropped != nil || len(u.Object["spec"].(map[string]any)) > 0 { //nolint:errcheck,forcetypeassert // a test
			return errors.Join(errors.New("they are not in force"), err, also, dropped)
		}
		return nil
	})

	kinds := map[string]string{"widgets": "Widget", "gadgets": "Gadget"}
	inspector := m.Inspector()
	tried := 0
	// refused tries a way on an object of its own, which is there already if base is not empty, and looks at what is stored then.
	refused := func(name, resource, base string, do func(name string) error) {
		t.Helper()
		tried++
		id := strings.NewReplacer(" ", "-", ",", "", "(", "", ")", "", "'", "").Replace(strings.ToLower(name))
		if base != "" {
			until(t, name, func(ctx context.Context) error { //nolint:contextcheck // until gives it
				_, err := of(resource, "v1").Create(ctx, object(kinds[resource], "v1", id, base), metav1.CreateOptions{})
				return err
			})
		}
		err := do(id)
		stored, gone := of(resource, "v1").Get(ctx, id, metav1.GetOptions{})
		if gone == nil {
			if uses := inspector.Uses("round.e2e.dev", "v1", resource, stored.Object); uses != nil {
				t.Errorf("%s: %s is stored (%v)", name, uses[0].Path, err)
			}
		}
		if err != nil && !apierrors.IsInvalid(err) {
			t.Errorf("%s: no refusal, but %v", name, err)
		}
	}
	create := func(resource, version, spec string) func(string) error {
		return func(name string) error {
			_, err := of(resource, version).Create(ctx, object(kinds[resource], version, name, spec), metav1.CreateOptions{})
			return err
		}
	}
	patch := func(resource, version string, kind types.PatchType, text string, sub ...string) func(string) error {
		return func(name string) error {
			data, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				return err
			}
			_, err = of(resource, version).Patch(ctx, name, kind, data, metav1.PatchOptions{}, sub...)
			return err
		}
	}
	apply := func(resource, version, manager, spec string) func(string) error {
		return func(name string) error {
			_, err := of(resource, version).Apply(ctx, name, object(kinds[resource], version, name, spec), metav1.ApplyOptions{FieldManager: manager, Force: true})
			return err
		}
	}
	put := func(resource, version string, change func(u *unstructured.Unstructured), sub ...string) func(string) error {
		return func(name string) error {
			u, err := of(resource, version).Get(ctx, name, metav1.GetOptions{}, sub...)
			if err != nil {
				return err
			}
			change(u)
			_, err = of(resource, version).Update(ctx, u, metav1.UpdateOptions{}, sub...)
			return err
		}
	}
	set1 := func(field string, value any) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			spec, _ := u.Object["spec"].(map[string]any)
			spec = maps.Clone(spec)
			spec[field] = value
			u.Object["spec"] = spec
		}
	}
	const plain, merge, jsonPatch = "{plain: p}", types.MergePatchType, types.JSONPatchType

	// Creating.
	refused("create", "widgets", "", create("widgets", "v1", "{alpha: x}"))
	refused("create an item", "widgets", "", create("widgets", "v1", "{items: [{name: a}, {name: b, extra: x}]}"))
	refused("create an item without identity", "widgets", "", create("widgets", "v1", "{steps: [{image: i}, {secret: x}]}"))
	refused("create an entry", "widgets", "", create("widgets", "v1", "{env: {A: {secret: x}}}"))
	refused("create a member of a set", "widgets", "", create("widgets", "v1", "{modes: [plain, turbo]}"))
	refused("create replicas", "widgets", "", create("widgets", "v1", "{replicas: 3}"))
	refused("create an empty string", "widgets", "", create("widgets", "v1", "{alpha: ''}"))
	refused("create in another version", "widgets", "", create("widgets", "v2", "{beta: x}"))
	refused("create an item in another version", "widgets", "", create("widgets", "v2", "{parts: [{name: a, extra: x}]}"))
	refused("create replicas in another version", "widgets", "", create("widgets", "v2", "{replicas: 3}"))
	refused("create in a version alike", "gadgets", "", create("gadgets", "v1beta1", "{alpha: x}"))
	refused("create by apply", "widgets", "", apply("widgets", "v1", "somebody", "{alpha: x}"))
	refused("create by apply in another version", "widgets", "", apply("widgets", "v2", "somebody", "{beta: x}"))
	refused("create what is dropped", "gadgets", "", create("gadgets", "v1", "{dropped: x}"))
	refused("create what is dropped in a version alike", "gadgets", "", create("gadgets", "v1beta1", "{dropped: x}"))
	refused("create what is dropped by apply", "gadgets", "", apply("gadgets", "v1", "somebody", "{dropped: x}"))
	refused("restore a backup", "widgets", "", func(name string) error {
		u := backup.DeepCopy()
		u.SetName(name)
		u.SetResourceVersion("")
		_, err := of("widgets", "v1").Create(ctx, u, metav1.CreateOptions{})
		return err
	})
	refused("replace by force", "widgets", plain, func(name string) error {
		if err := of("widgets", "v1").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		return create("widgets", "v1", "{alpha: x}")(name)
	})
	// Updating.
	refused("put", "widgets", plain, put("widgets", "v1", set1("alpha", "x")))
	refused("put in another version", "widgets", plain, put("widgets", "v2", set1("beta", "x")))
	refused("put in a version alike", "gadgets", plain, put("gadgets", "v1beta1", set1("alpha", "x")))
	refused("put without a resource version", "widgets", plain, put("widgets", "v1", func(u *unstructured.Unstructured) {
		u.SetResourceVersion("")
		set1("alpha", "x")(u)
	}))
	refused("merge patch", "widgets", plain, patch("widgets", "v1", merge, "{spec: {alpha: x}}"))
	refused("merge patch in another version", "widgets", plain, patch("widgets", "v2", merge, "{spec: {beta: x}}"))
	refused("json patch", "widgets", plain, patch("widgets", "v1", jsonPatch, "[{op: add, path: /spec/alpha, value: x}]"))
	refused("json patch that copies", "widgets", plain, patch("widgets", "v1", jsonPatch, "[{op: copy, from: /spec/plain, path: /spec/alpha}]"))
	refused("json patch that moves", "widgets", plain, patch("widgets", "v1", jsonPatch, "[{op: move, from: /spec/plain, path: /spec/alpha}]"))
	refused("json patch of the whole spec", "widgets", plain, patch("widgets", "v1", jsonPatch, "[{op: replace, path: /spec, value: {alpha: x}}]"))
	refused("json patch in another version", "widgets", plain, patch("widgets", "v2", jsonPatch, "[{op: add, path: /spec/parts, value: [{name: a, extra: x}]}]"))
	refused("apply", "widgets", plain, apply("widgets", "v1", "somebody", "{alpha: x}"))
	refused("apply in another version", "widgets", plain, apply("widgets", "v2", "somebody", "{beta: x}"))
	refused("apply with a label", "widgets", plain, patch("widgets", "v1", merge, "{metadata: {labels: {a: b}}, spec: {alpha: x}}"))
	refused("an update with a finalizer", "widgets", plain, patch("widgets", "v1", merge, "{metadata: {finalizers: [e2e.dev/x]}, spec: {alpha: x}}"))
	refused("an update while it is deleted", "widgets", plain, func(name string) error {
		if err := patch("widgets", "v1", merge, "{metadata: {finalizers: [e2e.dev/x]}}")(name); err != nil {
			return err
		}
		if err := of("widgets", "v1").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		return patch("widgets", "v1", merge, "{spec: {alpha: x}}")(name)
	})
	refused("an update that drops", "gadgets", plain, patch("gadgets", "v1", merge, "{spec: {dropped: x}}"))
	refused("an update that drops in a version alike", "gadgets", plain, put("gadgets", "v1beta1", set1("dropped", "x")))
	// Lists and maps.
	const items = "{items: [{name: a}, {name: b}], steps: [{image: i}], env: {A: {value: v}}, modes: [plain]}"
	refused("a field of an item", "widgets", items, patch("widgets", "v1", jsonPatch, "[{op: add, path: /spec/items/1/extra, value: x}]"))
	refused("an item in front", "widgets", items, patch("widgets", "v1", jsonPatch, "[{op: add, path: /spec/items/0, value: {name: c, extra: x}}]"))
	refused("an item in place of another", "widgets", items, patch("widgets", "v1", merge, "{spec: {items: [{name: c, extra: x}]}}"))
	refused("an item of another manager", "widgets", items, apply("widgets", "v1", "other", "{items: [{name: a, extra: x}]}"))
	refused("an item without identity", "widgets", items, patch("widgets", "v1", jsonPatch, "[{op: add, path: /spec/steps/0/secret, value: x}]"))
	refused("an entry", "widgets", items, patch("widgets", "v1", merge, "{spec: {env: {B: {secret: x}}}}"))
	refused("a field of an entry", "widgets", items, patch("widgets", "v1", merge, "{spec: {env: {A: {secret: x}}}}"))
	refused("a member of a set", "widgets", items, patch("widgets", "v1", jsonPatch, "[{op: add, path: /spec/modes/-, value: turbo}]"))
	// Subresources.
	refused("scale", "widgets", plain, patch("widgets", "v1", merge, "{spec: {replicas: 3}}", "scale"))
	refused("scale in another version", "widgets", plain, patch("widgets", "v2", merge, "{spec: {replicas: 3}}", "scale"))
	refused("status with a spec", "widgets", plain, patch("widgets", "v1", merge, "{spec: {alpha: x}, status: {phase: x}}", "status"))
	refused("status with a spec by put", "widgets", plain, put("widgets", "v1", set1("alpha", "x"), "status"))
	refused("status with a spec in another version", "widgets", plain, patch("widgets", "v2", merge, "{spec: {beta: x}, status: {phase: x}}", "status"))
	// What changes objects later.
	refused("set later what is refused", "widgets", "", func(name string) error {
		u := object("Widget", "v1", name, plain)
		u.SetLabels(map[string]string{"later-sets": "alpha"})
		_, err := of("widgets", "v1").Create(ctx, u, metav1.CreateOptions{})
		return err
	})
	refused("set later what is dropped", "gadgets", "", func(name string) error {
		u := object("Gadget", "v1", name, plain)
		u.SetLabels(map[string]string{"later-sets": "dropped"})
		_, err := of("gadgets", "v1").Create(ctx, u, metav1.CreateOptions{})
		return err
	})
	refused("set later what was dropped", "gadgets", "", func(name string) error {
		u := object("Gadget", "v1beta1", name, "{dropped: x}")
		u.SetLabels(map[string]string{"later-sets": "dropped"})
		_, err := of("gadgets", "v1beta1").Create(ctx, u, metav1.CreateOptions{})
		return err
	})
	refused("set later what is dropped, in an update", "gadgets", plain, patch("gadgets", "v1", merge, "{metadata: {labels: {later-sets: dropped}}, spec: {plain: q}}"))
	refused("set later what is refused, in another version", "widgets", plain, patch("widgets", "v2", merge, "{metadata: {labels: {later-sets: beta}}, spec: {plain: q}}"))

	// Versions that nobody has told the policies of.
	const third = `
  - name: v3
    served: true
    storage: false
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {replicas: {type: integer, format: int32}}}, status: {type: object, properties: {replicas: {type: integer}}}}}}`
	s.applyYAML(fmt.Sprintf(roundCRDs, conversion, third, third))
	for _, resource := range []string{"widgets", "gadgets"} {
		until(t, "the new version", func(ctx context.Context) error {
			_, err := of(resource, "v3").List(ctx, metav1.ListOptions{})
			return err
		})
	}
	refused("create in a new version", "widgets", "", create("widgets", "v3", "{alpha: x}"))
	refused("create in a new version alike", "gadgets", "", create("gadgets", "v3", "{alpha: x}"))
	refused("create what is dropped in a new version", "gadgets", "", create("gadgets", "v3", "{dropped: x}"))
	refused("update in a new version", "widgets", plain, patch("widgets", "v3", merge, "{spec: {items: [{name: a, extra: x}]}}"))
	refused("update in a new version alike", "gadgets", plain, put("gadgets", "v3", set1("alpha", "x")))
	refused("scale in a new version", "widgets", plain, patch("widgets", "v3", merge, "{spec: {replicas: 3}}", "scale"))

	if tried < 40 {
		t.Errorf("%d ways were tried", tried)
	}
	// What is no way round passes.
	for version, spec := range map[string]string{"v1": "{plain: q, items: [{name: a}]}", "v2": "{plain: q, parts: [{name: a}]}", "v3": "{plain: q}"} {
		if _, err := of("widgets", version).Create(ctx, object("Widget", version, "fine-"+version, spec), metav1.CreateOptions{}); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	if err := patch("widgets", "v1", merge, "{spec: {replicas: 0}}", "scale")("fine-v1"); err != nil {
		t.Errorf("scaling to none: %v", err)
	}
}
