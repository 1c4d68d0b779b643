package config_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/config"
	"sluice.dev/schema/upstream"
)

// crd returns one of the CRDs that are installed.
func crd(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := config.FeatureCRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range decode(t, text) {
		if u.GetKind() != "CustomResourceDefinition" || u.GetName() != name {
			continue
		}
		var out apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &out, true); err != nil {
			t.Fatal(err)
		}
		return &out
	}
	t.Fatalf("there is no CRD %s", name)
	return nil
}

func TestCRDsOfFeaturesAreValid(t *testing.T) {
	for _, name := range []string{"components.sluice.dev", "features.sluice.dev", "featurereports.sluice.dev"} {
		for _, kube := range []string{"1.30", "1.37"} {
			errs, err := upstream.ValidateCRD(t.Context(), crd(t, name), version.MustParseGeneric(kube))
			if err != nil || len(errs) > 0 {
				t.Errorf("%s on %s: %v %v", name, kube, err, errs)
			}
		}
	}
}

func TestCRDsOfFeaturesHaveTheFieldsOfTheTypes(t *testing.T) {
	for name, typ := range map[string]reflect.Type{
		"components.sluice.dev":     reflect.TypeFor[v1alpha1.Component](),
		"features.sluice.dev":       reflect.TypeFor[v1alpha1.Feature](),
		"featurereports.sluice.dev": reflect.TypeFor[v1alpha1.FeatureReport](),
	} {
		root := crd(t, name).Spec.Versions[0].Schema.OpenAPIV3Schema
		if diff := cmp.Diff(ofType("", typ), ofSchema("", root)); diff != "" {
			t.Errorf("%s (-types +CRD): %s", name, diff)
		}
	}
}

// ofType lists the fields of a type with their JSON types, as paths.
func ofType(path string, t reflect.Type) []string {
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		return []string{path + " string"}
	case t == reflect.TypeFor[metav1.ObjectMeta]():
		return []string{path + " object"}
	}
	if name, ok := scalars[t.Kind()]; ok {
		return []string{path + " " + name}
	}
	switch t.Kind() { //nolint:exhaustive // what is left has no place in the API
	case reflect.Pointer:
		return ofType(path, t.Elem())
	case reflect.Map:
		return append([]string{path + " object"}, ofType(path+"{}", t.Elem())...)
	case reflect.Slice:
		return append([]string{path + " array"}, ofType(path+"[]", t.Elem())...)
	case reflect.Struct:
		out := []string{path + " object"}
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				out = append(out, ofType(path, f.Type)[1:]...)
				continue
			}
			out = append(out, ofType(path+"."+name, f.Type)...)
		}
		slices.Sort(out)
		return out
	}
	return []string{fmt.Sprintf("%s has type %s", path, t)}
}

var scalars = map[reflect.Kind]string{reflect.Int32: "integer", reflect.Int64: "integer", reflect.Bool: "boolean", reflect.String: "string"}

func ofSchema(path string, s *apiextensionsv1.JSONSchemaProps) []string {
	out := []string{path + " " + s.Type}
	if s.Items != nil {
		out = append(out, ofSchema(path+"[]", s.Items.Schema)...)
	}
	if s.AdditionalProperties != nil {
		out = append(out, ofSchema(path+"{}", s.AdditionalProperties.Schema)...)
	}
	for name, p := range s.Properties {
		out = append(out, ofSchema(path+"."+name, &p)...)
	}
	slices.Sort(out)
	return out
}

const goodFeature = `
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: demo.tasks-timeout}
spec:
  component: demo
  gate: TasksTimeout
  stages:
    - {stage: Alpha, release: v1.0.0, date: "2026-01-31"}
    - {stage: Beta, release: v1.1.0, default: true}
  parts:
    - {group: demo.dev, resource: pipelines, field: spec.tasksTimeout}
    - {group: demo.dev, resource: pipelines, field: spec.onError, values: [Continue]}
    - {group: demo.dev, resource: pipelines, field: "spec.volumes[*]", match: [{field: type, values: [csi]}]}
    - {group: demo.dev, resource: pipelines, field: spec.statusText, pattern: "^#!win"}
    - {group: demo.dev, resource: pipelines, wholeVersion: true, versions: [v2]}
  requires: [Other]
`

const goodComponent = `
apiVersion: sluice.dev/v1alpha1
kind: Component
metadata: {name: demo}
spec:
  release: v1.1.0
  configMap: {namespace: demo, name: feature-flags}
  defaultLevel: beta
  maxLevel: beta
  settings: [{name: coschedule, pattern: "[a-z]+"}]
  resources: [{group: demo.dev, resource: pipelines, highestStage: Beta}]
  optIn: {rbac: true}
  tellUse: [Alpha, Deprecated]
`

func TestCRDsOfFeaturesRefuse(t *testing.T) {
	for _, tt := range []struct{ name, crd, object, from, to, want string }{
		{name: "a good feature", crd: "features", object: goodFeature},
		{name: "a good component", crd: "components", object: goodComponent},
		{"another name", "features", goodFeature, "name: demo.tasks", "name: other.tasks", "COMPONENT.GATE"},
		{"a gate in kebab-case", "features", goodFeature, "gate: TasksTimeout", "gate: tasks-timeout", "should match"},
		{"names too long for a label", "features", goodFeature, "gate: TasksTimeout", "gate: T" + strings.Repeat("a", 58), "62 characters"},
		{"a stage without a beginning", "features", goodFeature, "stage: Beta, release: v1.1.0,", "stage: Beta,", "release or date is missing"},
		{"an alpha that is on", "features", goodFeature, `date: "2026-01-31"`, "default: true", "an alpha feature is off"},
		{"a date of another form", "features", goodFeature, "2026-01-31", "31 January", "should match"},
		{"no stage", "features", goodFeature, "stages:", "stages: []\n  x:", "should have at least 1 items"},
		{"status", "features", goodFeature, "field: spec.tasksTimeout", "field: status.phase", "cannot be gated"},
		{"metadata", "features", goodFeature, "field: spec.tasksTimeout", `field: 'metadata["labels"]'`, "cannot be gated"},
		{"a field of a similar name passes", "features", goodFeature, "field: spec.tasksTimeout", "field: statusText", ""},
		{"neither field nor version", "features", goodFeature, ", field: spec.tasksTimeout", "", "set either field or wholeVersion"},
		{"field and version", "features", goodFeature, ", field: spec.tasksTimeout", ", field: spec.tasksTimeout, wholeVersion: true, versions: [v1]", "set either field or wholeVersion"},
		{"a version without a name", "features", goodFeature, ", versions: [v2]", "", "versions is missing"},
		{"values and a pattern", "features", goodFeature, "values: [Continue]", "values: [Continue], pattern: x", "only one of"},
		{"dropping a version", "features", goodFeature, "requires:", "whenDisabled: Drop\n  requires:", "cannot be dropped"},
		{"requiring itself", "features", goodFeature, "[Other]", "[TasksTimeout]", "does not require itself"},
		{"a mode that is none", "features", goodFeature, "requires:", "whenDisabled: Ignore\n  requires:", "Unsupported value"},
		{"levels out of order", "components", goodComponent, "maxLevel: beta", "maxLevel: stable", "beyond maxLevel"},
		{"one key for two things", "components", goodComponent, "defaultLevel", "levelKey: feature-gates\n  defaultLevel", "have to be different"},
		{"a name with a dot", "components", goodComponent, "name: demo}", "name: de.mo}", "part of labels"},
		{"an unknown stage of a resource", "components", goodComponent, "highestStage: Beta", "highestStage: Alpha", "Unsupported value"},
		{"nobody to tell of what is stable", "components", goodComponent, "tellUse: [Alpha", "tellUse: [Stable", "Unsupported value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(tt.object, tt.from, tt.to, 1)
			if text == tt.object && tt.from != "" {
				t.Fatalf("%q is not there", tt.from)
			}
			data, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			var object map[string]any
			if err := utiljson.Unmarshal(data, &object); err != nil {
				t.Fatal(err)
			}
			props, o, err := upstream.ForCRD(crd(t, tt.crd+".sluice.dev"), "v1alpha1", nil)
			if err != nil {
				t.Fatal(err)
			}
			v, err := upstream.New(props, o)
			if err != nil {
				t.Fatal(err)
			}
			res, err := v.Create(t.Context(), object)
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Errors.ToAggregate(); tt.want == "" && (got != nil || len(res.Pruned) > 0) ||
				tt.want != "" && (got == nil || !strings.Contains(got.Error(), tt.want)) {
				t.Errorf("got %v, pruned %v, want %q", got, res.Pruned, tt.want)
			}
		})
	}
}
