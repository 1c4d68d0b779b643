package feature_test

import (
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/schema"
)

// pipelineSchema is that of a kind with every sort of list and map.
const pipelineSchema = `
type: object
properties:
  apiVersion: {type: string}
  kind: {type: string}
  metadata: {type: object}
  spec:
    type: object
    required: [name]
    properties:
      name: {type: string}
      tasksTimeout: {type: string}
      onError: {type: string, enum: [Stop, Continue, Retry]}
      must: {type: string, enum: [A, B]}
      replicas: {type: integer}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true}
      withDefault: {type: string, default: x}
      modes: {type: array, x-kubernetes-list-type: set, items: {type: string, enum: [Fast, Slow, Odd]}}
      env:
        type: object
        additionalProperties:
          type: object
          properties: {value: {type: string}, secretRef: {type: string}}
      tasks:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items:
          type: object
          required: [name]
          properties:
            name: {type: string}
            timeout: {type: string}
            policy: {type: string, enum: [Old, New]}
            steps:
              type: array
              items:
                type: object
                required: [image]
                properties:
                  image: {type: string}
                  debug: {type: object, x-kubernetes-preserve-unknown-fields: true}
                  script: {type: string}
      volumes:
        type: array
        items:
          type: object
          properties: {name: {type: string}, type: {type: string, enum: [empty, csi]}}
      mounts:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [path, device]
        items:
          type: object
          required: [path, device]
          properties: {path: {type: string}, device: {type: integer}, kind: {type: string, enum: [ro, rw]}}
  status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

func node(t testing.TB, text string) *schema.Node {
	t.Helper()
	var props apiextensionsv1.JSONSchemaProps
	if err := yaml.UnmarshalStrict([]byte(text), &props); err != nil {
		t.Fatal(err)
	}
	n, err := schema.New(&props)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func pipelines(t testing.TB) []feature.Resource {
	n := node(t, pipelineSchema)
	return []feature.Resource{{Group: "demo.dev", Resource: "pipelines", Versions: []feature.Version{{Name: "v1", Schema: n}, {Name: "v2", Schema: n}}}}
}

// read decodes YAML as Kubernetes decodes objects.
func read(t testing.TB, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func show(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const componentYAML = `
metadata: {name: demo}
spec:
  release: v1.5.0
  configMap: {namespace: demo-system, name: feature-flags}
`

func component(t testing.TB, text string) *v1alpha1.Component {
	t.Helper()
	var c v1alpha1.Component
	if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

// features reads a list of specs, of component demo unless they say otherwise and at stage Alpha since v1.0.0 unless they
// say otherwise.
func features(t testing.TB, text string) []v1alpha1.Feature {
	t.Helper()
	var specs []v1alpha1.FeatureSpec
	if err := yaml.UnmarshalStrict([]byte(text), &specs); err != nil {
		t.Fatal(err)
	}
	out := make([]v1alpha1.Feature, len(specs))
	for i, s := range specs {
		if s.Component == "" {
			s.Component = "demo"
		}
		if s.Stages == nil {
			s.Stages = []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}
		}
		for j := range s.Parts {
			if s.Parts[j].Resource == "" {
				s.Parts[j].Group, s.Parts[j].Resource = "demo.dev", "pipelines"
			}
		}
		out[i].Spec = s
	}
	return out
}

// define defines features that hold no error.
func define(t testing.TB, componentText, featuresText string, resources []feature.Resource) *feature.Model {
	t.Helper()
	m, findings := feature.Define(component(t, componentText), features(t, featuresText), feature.Options{Resources: resources})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

// evaluator compiles features with settings that hold no error.
func evaluator(t testing.TB, m *feature.Model, settings map[string]string) *feature.Evaluator {
	t.Helper()
	s, findings := m.ParseSettings(settings)
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m.Resolve(s, feature.Runtime{}).Compile()
}

func request(t testing.TB, old, object string) *feature.Request {
	t.Helper()
	return &feature.Request{Group: "demo.dev", Version: "v1", Resource: "pipelines", Old: read(t, old), Object: read(t, object)}
}
