package upstream

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// An API server before 1.36 ignores the formats of numbers, wherever they stand; those of strings it checks.
func TestFormatsOfNumbersByVersion(t *testing.T) {
	const text = `{"type": "object", "properties": {
		"n": {"type": "integer", "format": "int32"}, "f": {"type": "number", "format": "float"}, "s": {"type": "string", "format": "ipv4"},
		"l": {"type": "array", "items": {"type": "integer", "format": "int32"}},
		"m": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
		"j": {"type": "integer", "allOf": [{"format": "int32"}]}}}`
	var schema props
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		t.Fatal(err)
	}
	for kube, numbers := range map[string]bool{"1.25": false, "1.35": false, "1.36": true, "1.37": true} {
		v, err := New(&schema, Options{Group: "example.com", Version: "v1", Kind: "K", KubeVersion: version.MustParse(kube)})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			field   string
			value   any
			refused bool
		}{
			{"n", int64(1) << 40, numbers},
			{"f", 1e300, numbers},
			{"l", []any{int64(1) << 40}, numbers},
			{"m", map[string]any{"a": int64(1) << 40}, numbers},
			{"s", "no address", true},
			{"n", int64(1), false},
		} {
			r, err := v.Create(t.Context(), map[string]any{
				"apiVersion": "example.com/v1", "kind": "K", "metadata": map[string]any{"name": "a"}, c.field: c.value,
			})
			if err != nil {
				t.Fatal(err)
			}
			if r.Refused() != c.refused {
				t.Errorf("%s: %s %v: %v", kube, c.field, c.value, r.Errors)
			}
		}
	}
	if schema.Properties["n"].Format != "int32" {
		t.Error("the schema that was given is changed")
	}
}
