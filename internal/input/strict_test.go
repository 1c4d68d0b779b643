package input_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/input"
)

// TestStrictNamesTheWrongValue has values of a wrong type below keys, in lists and in structs.
func TestStrictNamesTheWrongValue(t *testing.T) {
	for text, want := range map[string]string{
		"data:\n  a: b\n  c: true\n":                        `f.yaml:4: data.c must be a string, not a boolean: put it in quotes`,
		"data:\n  a: b\n  c.d: 1\n":                         `f.yaml:4: data["c.d"] must be a string, not the number 1: put it in quotes`,
		"data:\n  a: b\n  c: {d: e}\n":                      `f.yaml:4: data.c must be a string, not an object`,
		"data: [a]\n":                                       `f.yaml:2: data must be an object, not a list`,
		"immutable: 'true'\n":                               `f.yaml:2: immutable must be a boolean, not a string`,
		"metadata:\n  ownerReferences:\n  - {name: 1}\n":    `f.yaml:4: metadata.ownerReferences[0].name must be a string, not the number 1: put it in quotes`,
		"metadata: {generation: x}\n":                       `f.yaml:2: metadata.generation must be an integer, not a string`,
		"metadata:\n  name: x\n  deletionTimestamp: {a: b}": `f.yaml:4: metadata.deletionTimestamp must be a time, not an object`,
	} {
		set, err := input.DecodeObjects(t.Context(), "f.yaml", []byte("kind: ConfigMap\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Objects[0].Strict(&corev1.ConfigMap{}); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// TestStrictRefusesNullOfOwnTypes: a decoder makes an empty value of it. In types of Kubernetes the API server does so too.
func TestStrictRefusesNullOfOwnTypes(t *testing.T) {
	for text, want := range map[string]string{
		"metadata: {name: a, labels: {a: null}, finalizers: [null]}\nspec: {key: null, parts: null}\n": "",
		"spec:\n  parts:\n  - values: [a,\n      null]\n":                                              `f.yaml:5: spec.parts[0].values[1] must be a string, not null: put it in quotes`,
		"spec:\n  parts:\n  - match: [{field: a, values: [~]}]\n":                                      `f.yaml:4: spec.parts[0].match[0].values[0] must be a string, not null: put it in quotes`,
		"spec:\n  parts:\n  - beyond: {values: [~]}\n":                                                 `f.yaml:4: spec.parts[0].beyond.values[0] must be a string, not null: put it in quotes`,
		"spec:\n  parts:\n  -\n":                                                                       `f.yaml:4: spec.parts[0] must be an object, not null`,
		"spec:\n  requires: [null]\n":                                                                  `f.yaml:3: spec.requires[0] must be a string, not null: put it in quotes`,
	} {
		set, err := input.DecodeObjects(t.Context(), "f.yaml", []byte("kind: Feature\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Objects[0].Strict(&v1alpha1.Feature{}); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
	var file struct {
		Kind  string                     `json:"kind"`
		Rules map[string]string          `json:"rules"`
		Gates map[string]bool            `json:"gates"`
		Any   map[string]any             `json:"any"`
		Stage map[string]*v1alpha1.Stage `json:"stage"`
	}
	set, err := input.DecodeObjects(t.Context(), "f.yaml", []byte("kind: X\nrules: {a: ignore}\nany: {a: null}\nstage: {a: null}\ngates:\n  b: null\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Objects[0].Strict(&file); err == nil || err.Error() != `f.yaml:6: gates.b must be a boolean, not null` {
		t.Error(err)
	}
}
