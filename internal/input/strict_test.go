package input_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

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
