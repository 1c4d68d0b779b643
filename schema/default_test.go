package schema

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// parse reads a schema and, as the API server's library reads it, its structure.
func parse(t *testing.T, text string) (*Node, *structuralschema.Structural) {
	t.Helper()
	var p apiextensionsv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	n, err := New(&p)
	if err != nil {
		t.Fatal(err)
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&p, &internal, nil); err != nil {
		t.Fatal(err)
	}
	s, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	return n, s
}

func TestWithDefaultsAgreesWithUpstream(t *testing.T) {
	type object = map[string]any
	type array = []any
	nested := object{"inner": object{}, "list": array{object{}, nil}, "map": object{"x": object{}, "y": nil}}
	for name, schema := range map[string]string{
		"no default":               "{type: object, properties: {a: {type: string}}}",
		"a default":                "{type: object, properties: {a: {type: string, default: x}}}",
		"a nullable one":           "{type: object, properties: {a: {type: string, nullable: true, default: x}}}",
		"a default of null":        "{type: object, properties: {a: {type: string, nullable: true, default: null}}}",
		"in an object":             "{type: object, properties: {inner: {type: object, properties: {a: {type: integer, default: 1}}}}}",
		"in an object's default":   "{type: object, properties: {inner: {type: object, default: {}, properties: {a: {type: integer, default: 1}, b: {type: object, default: {}, properties: {c: {type: string, default: x}}}}}}}",
		"in items":                 "{type: object, properties: {list: {type: array, items: {type: object, default: {b: 2}, properties: {a: {type: integer, default: 1}}}}}}",
		"in nullable items":        "{type: object, properties: {list: {type: array, items: {type: object, nullable: true, default: {b: 2}, properties: {a: {type: integer, default: 1}}}}}}",
		"in additional properties": "{type: object, properties: {map: {type: object, additionalProperties: {type: object, default: {b: 2}, properties: {a: {type: integer, default: 1}}}}}}",
		"in nullable additional":   "{type: object, properties: {map: {type: object, additionalProperties: {type: object, nullable: true, default: {b: 2}}}}}",
	} {
		t.Run(name, func(t *testing.T) {
			n, s := parse(t, schema)
			for _, value := range []any{object{}, object{"a": nil}, object{"a": "y", "b": nil}, object{"inner": nil, "list": nil, "map": nil}, nested, array{object{}}, "text", nil} {
				before := runtime.DeepCopyJSONValue(value)
				want := runtime.DeepCopyJSONValue(value)
				structuraldefaulting.Default(want, s)
				if diff := cmp.Diff(want, WithDefaults(n, value)); diff != "" {
					t.Errorf("%v (-upstream +ours):\n%s", before, diff)
				}
				if diff := cmp.Diff(before, value); diff != "" {
					t.Errorf("the value was changed:\n%s", diff)
				}
			}
		})
	}
}

func TestADefaultOfNullIsNone(t *testing.T) {
	for text, want := range map[string]bool{"null": false, "": false, "0": true, `""`: true, "{}": true} {
		n, err := New(&apiextensionsv1.JSONSchemaProps{Default: &apiextensionsv1.JSON{Raw: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		if n.HasDefault != want {
			t.Errorf("default: %s is a default: %t, want %t", text, n.HasDefault, want)
		}
	}
}
