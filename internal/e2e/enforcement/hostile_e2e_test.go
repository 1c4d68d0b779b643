//go:build e2e

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
)

// hostileNames need care in expressions, in JSON pointers or in messages.
var hostileNames = []string{
	`quo"te`, `it's`, `sla/sh`, `til~de`, `~0~1/`, `back\slash`, `\`, `a.b`, `[*]`, `a[0]`, `-`, `0`, `new` + "\n" + `line`, "tab\t", "é", "日本", "👍", "\u202eright",
	"in", "true", "null", "namespace", "object", "oldObject", "variables", "params", "request", "has", "size", "type", "map", "__in__", "__dot__", "a__b", "$", "{}", "%s",
	strings.Repeat("x", 300), strings.Repeat("'", 60),
}

// TestE2EHostileNames gates fields of names that need care, in the object, in items of a list and in entries of a map whose keys need
// it too: refused with the place told, dropped and nothing else, let pass where stored; by policies in both modes, and by the webhook.
func TestE2EHostileNames(t *testing.T) {
	t.Parallel()
	s := connect(t)
	for _, by := range []string{"Live", "Baked", byTheWebhook} {
		t.Run(by, func(t *testing.T) {
			s, mode := s.with(t), v1alpha1.Mode(by)
			if by == byTheWebhook {
				mode = v1alpha1.Baked
			}
			component := "names-" + strings.ToLower(by)
			group, namespace := component+".e2e.dev", component
			s.namespace(namespace, nil)
			s.settings(namespace, nil)
			crd := namesCRD(t, group)
			s.applyYAML(crd)
			var specs []v1alpha1.FeatureSpec
			add := func(gate string, when v1alpha1.WhenDisabled, path feature.Path) {
				text := strings.ReplaceAll(path.String(), `["[]"]`, "[*]")
				specs = append(specs, v1alpha1.FeatureSpec{Gate: gate, WhenDisabled: when, Parts: []v1alpha1.Part{{Group: group, Resource: "things", Field: text}}})
			}
			for i, name := range hostileNames {
				add(fmt.Sprintf("Refused%d", i), v1alpha1.Reject, feature.Path{{Name: "spec"}, {Name: "refused"}, {Name: name}})
				add(fmt.Sprintf("Dropped%d", i), v1alpha1.Drop, feature.Path{{Name: "spec"}, {Name: "dropped"}, {Name: name}})
				if len(name) > 200 {
					continue // the places of 5,000 items would be too long for a policy
				}
				add(fmt.Sprintf("Item%d", i), v1alpha1.Reject, feature.Path{{Name: "spec"}, {Name: "items"}, {Name: "[]"}, {Name: name}})
			}
			add("Secret", v1alpha1.Reject, feature.Path{{Name: "spec"}, {Name: "entries"}, {Name: "[]"}, {Name: "secret"}})
			add("Hint", v1alpha1.Drop, feature.Path{{Name: "spec"}, {Name: "entries"}, {Name: "[]"}, {Name: "hint"}})
			features, err := yaml.Marshal(specs)
			if err != nil {
				t.Fatal(err)
			}
			m := model(t, fmt.Sprintf("{metadata: {name: %s}, spec: {release: v1.5.0, mode: %s, configMap: {namespace: %s, name: feature-flags}}}", component, mode, namespace), string(features), crd)
			set := &policy.Set{}
			if by != byTheWebhook {
				if set, err = policy.Compile(t.Context(), m, policy.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			for _, e := range set.Enforced {
				if e.Kind == "" {
					t.Errorf("%s takes the webhook: %s", e.Gate, e.Reason)
				}
			}
			things, _ := s.as("", schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}, namespace)
			object := func(name string, spec map[string]any) *unstructured.Unstructured {
				u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Thing", "spec": spec}}
				u.SetName(name)
				return u.DeepCopy()
			}
			all, without := map[string]any{}, map[string]any{}
			fields := func(more ...any) map[string]any {
				out := map[string]any{}
				for _, name := range hostileNames {
					out[name] = "x"
				}
				for i := 0; i+1 < len(more); i += 2 {
					name, _ := more[i].(string)
					out[name] = more[i+1]
				}
				return out
			}
			entries := map[string]any{}
			left := map[string]any{}
			for _, name := range hostileNames {
				entries[name], left[name] = map[string]any{"hint": "h", "value": "v"}, map[string]any{"value": "v"}
			}
			all["dropped"], all["entries"] = fields("kept", "k"), entries
			without["dropped"], without["entries"] = map[string]any{"kept": "k"}, left
			secrets := map[string]any{}
			for _, name := range hostileNames {
				secrets[name] = map[string]any{"secret": "s"}
			}
			// What is stored before.
			stored, err := things.Create(t.Context(), object("stored", map[string]any{"refused": fields(), "dropped": fields(), "items": []any{map[string]any{"name": "a"}, fields("name", "b")}, "entries": secrets}), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if by == byTheWebhook {
				s.enforceByHook(m, group, "things")
			} else {
				s.enforce(set)
				defer s.release(component)
			}
			dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
			refused := func(what, place, gate string, spec map[string]any) {
				t.Helper()
				until(t, what+" to be refused", func(ctx context.Context) error {
					_, err := things.Create(ctx, object("x", spec), dry)
					switch {
					case err == nil:
						return errors.New("it passes")
					case !strings.Contains(err.Error(), place+": alpha; needs feature "+`"`+gate+`"`) && (place != "" || !strings.Contains(err.Error(), `"`+gate+`"`)):
						return fmt.Errorf("%s is not told: %w", place, err)
					}
					return nil
				})
			}
			short := func(p feature.Path) string {
				last := &p[len(p)-1]
				if r := []rune(last.Name); len(r) > 80 {
					return "" // it is cut somewhere
				}
				return p.String()
			}
			for i, name := range hostileNames {
				refused(name, short(feature.Path{{Name: "spec"}, {Name: "refused"}, {Name: name}}), fmt.Sprintf("Refused%d", i), map[string]any{"refused": map[string]any{name: "x"}})
				refused("the entry "+name, "", "Secret", map[string]any{"entries": map[string]any{name: map[string]any{"secret": "s"}}})
				if len(name) > 200 {
					continue
				}
				refused("the item "+name, strings.Replace(short(feature.Path{{Name: "spec"}, {Name: "items"}, {Name: "#"}, {Name: name}}), `["#"]`, "[1]", 1), fmt.Sprintf("Item%d", i),
					map[string]any{"items": []any{map[string]any{"name": "a"}, map[string]any{"name": "b", name: "x"}}})
			}
			until(t, "what is dropped to be dropped", func(ctx context.Context) error {
				got, err := things.Create(ctx, object("x", all), dry)
				if err != nil {
					return err
				}
				if diff := cmp.Diff(without, got.Object["spec"]); diff != "" {
					return errors.New(diff)
				}
				return nil
			})
			u := stored.DeepCopy()
			u.SetLabels(map[string]string{"a": "b"})
			if err := unstructured.SetNestedField(u.Object, "k", "spec", "refused", "kept"); err != nil {
				t.Fatal(err)
			}
			got, err := things.Update(t.Context(), u, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				t.Fatalf("what is stored: %v", err)
			}
			if diff := cmp.Diff(u.Object["spec"], got.Object["spec"]); diff != "" {
				t.Errorf("what is stored: %s", diff)
			}
		})
	}
}

func namesCRD(t *testing.T, group string) string {
	t.Helper()
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	fields := map[string]apiextensionsv1.JSONSchemaProps{"kept": text, "name": text}
	for _, name := range hostileNames {
		fields[name] = text
	}
	object := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: fields}
	entry := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"secret": text, "hint": text, "value": text}}
	item := object
	item.Required = []string{"name"}
	crd := apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "things." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Thing", ListKind: "ThingList", Plural: "things", Singular: "thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"refused": object, "dropped": object,
						"items":   {Type: "array", XListType: new("map"), XListMapKeys: []string{"name"}, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}},
						"entries": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &entry}},
					}},
				}}},
			}},
		},
	}
	out, err := yaml.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
