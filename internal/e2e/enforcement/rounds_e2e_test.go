//go:build e2e

package enforcement

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/tools/featuregen"
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
              copies: {type: integer}
              title: {type: string}
              items:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, extra: {type: string}, note: {type: string}}}
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
    subresources: &gadgetScale {scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    schema: &gadget
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {plain: {type: string}, alpha: {type: string}, named: {type: string}, size: {type: integer, format: int32}, dropped: {type: string}, speed: {type: string, enum: [slow, fast]}, slots: {type: array, items: {type: object, properties: {size: {type: integer}}}}}}, status: {type: object, properties: {size: {type: integer, format: int32}}}}}
  - name: v1beta1
    served: true
    storage: false
    subresources: *gadgetScale
    schema: *gadget
%[3]s
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pools.round.e2e.dev}
spec:
  group: round.e2e.dev
  scope: Namespaced
  names: {kind: Pool, plural: pools, singular: pool, listKind: PoolList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {scale: {specReplicasPath: .spec.auto.size, statusReplicasPath: .status.size}}
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {plain: {type: string}, auto: {type: object, properties: {size: {type: integer, format: int32}, mode: {type: string}}}}}, status: {type: object, properties: {size: {type: integer, format: int32}}}}}
`

const roundFeatures = `
- {gate: Alpha, parts: [{group: round.e2e.dev, resource: widgets, field: spec.alpha, versions: [v1]}, {group: round.e2e.dev, resource: gadgets, field: spec.alpha}]}
- {gate: Replicas, parts: [{group: round.e2e.dev, resource: widgets, field: spec.replicas}]}
- {gate: Auto, parts: [{group: round.e2e.dev, resource: pools, field: spec.auto}]}
- {gate: Extra, parts: [{group: round.e2e.dev, resource: widgets, field: "spec.items[*].extra"}]}
- {gate: Step, parts: [{group: round.e2e.dev, resource: widgets, field: "spec.steps[*].secret"}]}
- {gate: Secret, parts: [{group: round.e2e.dev, resource: widgets, field: "spec.env[*].secret"}]}
- {gate: Turbo, parts: [{group: round.e2e.dev, resource: widgets, field: "spec.modes[*]", values: [turbo]}]}
- {gate: Named, parts: [{group: round.e2e.dev, resource: gadgets, field: spec.named, versions: [v1]}]}
- {gate: Large, parts: [{group: round.e2e.dev, resource: widgets, field: spec.copies, beyond: {minimum: 1, maximum: 10}}, {group: round.e2e.dev, resource: widgets, field: spec.replicas, beyond: {minimum: 2}}, {group: round.e2e.dev, resource: widgets, field: spec.steps, beyond: {maxItems: 2}}, {group: round.e2e.dev, resource: widgets, field: spec.title, beyond: {maxLength: 5, pattern: "^[A-Z]"}}]}
- {gate: Note, ratchet: InObject, parts: [{group: round.e2e.dev, resource: widgets, field: "spec.items[*].note", versions: [v1]}]}
- {gate: Speed, whenDisabled: Drop, parts: [{group: round.e2e.dev, resource: gadgets, field: spec.speed, values: [fast], resetTo: slow}, {group: round.e2e.dev, resource: gadgets, field: "spec.slots[*].size", beyond: {maximum: 9}, resetTo: "9"}]}
- {gate: None, parts: [{group: round.e2e.dev, resource: gadgets, field: spec.size, values: ["0"]}]}
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

// rounds is where ways round the gates are tried.
type rounds struct {
	*server
	inspector *feature.Inspector
	// backup is what a backup has: an object that was stored while all was open.
	backup *unstructured.Unstructured
	// made has the names that the API server generated.
	made sync.Map
}

const roundNamespace = "rounds"

func (r *rounds) of(resource, version string) dynamic.ResourceInterface {
	return r.dynamic.Resource(schema.GroupVersionResource{Group: "round.e2e.dev", Version: version, Resource: resource}).Namespace(roundNamespace)
}

func (r *rounds) object(resource, version, name, spec string) *unstructured.Unstructured {
	r.Helper()
	kind := map[string]string{"widgets": "Widget", "gadgets": "Gadget", "pools": "Pool", "gizmos": "Gizmo", "droppers": "Dropper"}[resource]
	return &unstructured.Unstructured{Object: read(r, fmt.Sprintf("{apiVersion: round.e2e.dev/%s, kind: %s, metadata: {name: %s}, spec: %s}", version, kind, name, spec))}
}

func (r *rounds) create(resource, version, spec string) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		_, err := r.of(resource, version).Create(ctx, r.object(resource, version, name, spec), metav1.CreateOptions{})
		return err
	}
}

func (r *rounds) patch(resource, version string, kind types.PatchType, text string, sub ...string) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return err
		}
		_, err = r.of(resource, version).Patch(ctx, name, kind, data, metav1.PatchOptions{}, sub...)
		return err
	}
}

func (r *rounds) apply(resource, version, manager, spec string) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		_, err := r.of(resource, version).Apply(ctx, name, r.object(resource, version, name, spec), metav1.ApplyOptions{FieldManager: manager, Force: true})
		return err
	}
}

func (r *rounds) put(resource, version string, change func(u *unstructured.Unstructured), sub ...string) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		u, err := r.of(resource, version).Get(ctx, name, metav1.GetOptions{}, sub...)
		if err != nil {
			return err
		}
		change(u)
		_, err = r.of(resource, version).Update(ctx, u, metav1.UpdateOptions{}, sub...)
		return err
	}
}

// try goes a way with an object of its own, and looks at what is stored then.
func (r *rounds) try(t *testing.T, p *probe, open bool) {
	ctx := t.Context()
	name := p.object
	if name == "" {
		name = strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(strings.ToLower(p.name))
	}
	if open {
		name += "-open"
	}
	if p.base != "" {
		until(t, p.name, func(ctx context.Context) error { return r.create(p.resource, "v1", p.base)(ctx, name) })
	}
	err := p.do(ctx, name)
	switch passes := !p.never && (open || p.fine); {
	case passes && err != nil:
		t.Errorf("it is refused: %v", err)
	case err != nil && !apierrors.IsInvalid(err):
		t.Errorf("no refusal, but %v", err)
	}
	if p.dry {
		if !open && err == nil && p.resource != "droppers" {
			t.Error("the dry run passes")
		}
		return
	}
	if made, ok := r.made.Load(name); ok {
		name, _ = made.(string)
	}
	stored, gone := r.of(p.resource, "v1").Get(ctx, name, metav1.GetOptions{})
	if gone == nil {
		uses, wanted := r.inspector.Uses("round.e2e.dev", "v1", p.resource, stored.Object), open && !p.fine && !p.never
		if (uses != nil) != wanted {
			t.Errorf("stored is %s (%v)", featuregen.Show(stored.Object["spec"]), err)
		}
	} else if err == nil {
		t.Errorf("it was taken and is not there: %v", gone)
	}
}

// tryAll goes all ways at once, with the gates off or on, and returns how many there are.
func (r *rounds) tryAll(t *testing.T, routes map[string][]probe, open bool) (n int) {
	t.Helper()
	t.Run(fmt.Sprintf("open=%t", open), func(t *testing.T) {
		for route, probes := range routes {
			n += len(probes)
			for _, p := range probes {
				t.Run(route+"/"+p.name, func(t *testing.T) {
					t.Parallel()
					r.try(t, &p, open)
				})
			}
		}
	})
	return n
}

// scaleStored scales objects whose replicas were stored while all was open. The scale of one with 0 is like that of one without replicas: only an
// update of the object tells them apart.
func (r *rounds) scaleStored() {
	r.Helper()
	for _, step := range []struct {
		object        string
		scale, passes bool
		size          int
	}{
		{"stored-three", true, true, 5},
		{"stored-three", true, true, 0},
		{"stored-three", true, false, 5},
		{"stored-zero", true, false, 3},
		{"stored-zero", false, true, 3},
		{"stored-zero", true, true, 5},
	} {
		try := r.patch("pools", "v1", merge, fmt.Sprintf("{spec: {auto: {size: %d}}}", step.size))
		if step.scale {
			try = r.patch("pools", "v1", merge, fmt.Sprintf("{spec: {replicas: %d}}", step.size), "scale")
		}
		err := try(r.Context(), step.object)
		if (err == nil) != step.passes || err != nil && !apierrors.IsInvalid(err) {
			r.Errorf("%+v: %v", step, err)
		}
	}
}

// TestE2EWaysRound tries to get what is off into the store, in every way that we know of, and what is on.
func TestE2EWaysRound(t *testing.T) {
	t.Parallel()
	s := connect(t)
	ctx := t.Context()
	s.namespace(roundNamespace, nil)
	conversion, mutator := neighbours(t)
	crds := fmt.Sprintf(roundCRDs, conversion, "", "") + "---" + fmt.Sprintf(probeCRD, "Gizmo", "gizmos") + "---" + fmt.Sprintf(probeCRD, "Dropper", "droppers")
	s.applyYAML(crds)
	m := model(t, "{metadata: {name: round}, spec: {release: v1.0.0, configMap: {namespace: "+roundNamespace+", name: feature-flags}}}", roundFeatures+probeFeatures(), strings.Split(crds, "\n---\n")...)
	set, err := policy.Compile(ctx, m, policy.Options{Kubernetes: "1.36"})
	if err != nil {
		t.Fatal(err)
	}
	if set.Webhook {
		t.Errorf("something takes the webhook: %+v", set.Enforced)
	}
	r := &rounds{server: s, inspector: m.Inspector()}
	const everything = "{plain: p, alpha: x, items: [{name: a, extra: x}], env: {A: {secret: x}}, modes: [turbo]}"
	r.backup, err = r.of("widgets", "v1").Create(ctx, r.object("widgets", "v1", "backup", everything), metav1.CreateOptions{})
	if err == nil {
		err = r.of("widgets", "v1").Delete(ctx, "backup", metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := r.create("widgets", "v1", "{items: [{name: a, note: x}, {name: b}]}")(ctx, "noted"); err != nil {
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
	for name, spec := range map[string]string{"stored-zero": "{auto: {size: 0}}", "stored-three": "{auto: {size: 3}}"} {
		if err := r.create("pools", "v1", spec)(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	s.settings(roundNamespace, nil)
	s.enforce(set)
	defer s.release("round")
	until(t, "the policies", func(ctx context.Context) error {
		_, err := r.of("widgets", "v1").Create(ctx, r.object("widgets", "v1", "probe", everything), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		_, also := r.of("gadgets", "v1").Create(ctx, r.object("gadgets", "v1", "probe", "{alpha: x}"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		u, dropped := r.of("gadgets", "v1").Create(ctx, r.object("gadgets", "v1", "probe", "{dropped: x}"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		_, scaled := r.of("widgets", "v1").Create(ctx, r.object("widgets", "v1", "probe", "{replicas: 3}"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsInvalid(err) || !apierrors.IsInvalid(also) || !apierrors.IsInvalid(scaled) || dropped != nil || len(u.Object["spec"].(map[string]any)) > 0 { //nolint:errcheck,forcetypeassert // a test
			return errors.Join(errors.New("they are not in force"), err, also, dropped)
		}
		return nil
	})

	tried := r.tryAll(t, probesOf(r.ways()), false) + r.tryAll(t, r.probes(), false)

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
			_, err := r.of(resource, "v3").List(ctx, metav1.ListOptions{})
			return err
		})
	}
	tried += r.tryAll(t, probesOf(r.waysLater()), false)
	// What is no way round passes.
	for version, spec := range map[string]string{"v1": "{plain: q, items: [{name: a}]}", "v2": "{plain: q, parts: [{name: a}]}", "v3": "{plain: q}"} {
		if err := r.create("widgets", version, spec)(ctx, "fine-"+version); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	for _, patch := range []string{
		"[{op: add, path: /spec/items/1/note, value: also}]", "[{op: remove, path: /spec/items/0/note}]", "[{op: add, path: /spec/items/-, value: {name: c, note: also}}]",
	} {
		if err := r.patch("widgets", "v1", jsonPatch, patch)(ctx, "noted"); err != nil {
			t.Errorf("an object that uses the feature elsewhere: %s: %v", patch, err)
		}
	}
	r.scaleStored()
	u, err := r.of("gadgets", "v1").Create(ctx, r.object("gadgets", "v1", "reset", "{speed: fast, slots: [{size: 3}, {size: 12}, {}, {size: 99}]}"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"slots":[{"size":3},{"size":9},{},{"size":9}],"speed":"slow"}`, featuregen.Show(u.Object["spec"])); diff != "" {
		t.Errorf("what is reset: %s", diff)
	}

	// With all gates on, the same ways lead to objects that have the parts.
	s.settings(roundNamespace, map[string]string{"enable-api-fields": "alpha"})
	until(t, "the gates to open", func(ctx context.Context) error {
		_, err := r.of("widgets", "v1").Create(ctx, r.object("widgets", "v1", "probe", everything), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	probes := r.probes()
	delete(probes, "droppers") // once they are on, it is the same
	tried += r.tryAll(t, probesOf(r.ways()), true) + r.tryAll(t, probes, true) + r.tryAll(t, probesOf(r.waysLater()), true)
	t.Logf("%d probes", tried)
	if tried < fewestProbes {
		t.Errorf("there are %d probes, not %d", tried, fewestProbes)
	}
}
