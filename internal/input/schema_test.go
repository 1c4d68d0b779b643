package input

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// fill sets every field of v to something that is not its zero value, schemas within schemas down to depth.
func fill(t *testing.T, v reflect.Value, depth int) {
	t.Helper()
	switch v.Interface().(type) {
	case apiextensionsv1.JSON:
		v.Set(reflect.ValueOf(apiextensionsv1.JSON{Raw: []byte(`{"a":[1,1.5,"x",null,true]}`)}))
		return
	case apiextensionsv1.JSONSchemaPropsOrArray:
		s := apiextensionsv1.JSONSchemaProps{}
		fill(t, reflect.ValueOf(&s).Elem(), depth-1)
		v.Set(reflect.ValueOf(apiextensionsv1.JSONSchemaPropsOrArray{Schema: &s}))
		return
	case apiextensionsv1.JSONSchemaPropsOrBool:
		s := apiextensionsv1.JSONSchemaProps{}
		fill(t, reflect.ValueOf(&s).Elem(), depth-1)
		v.Set(reflect.ValueOf(apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &s}))
		return
	case apiextensionsv1.JSONSchemaPropsOrStringArray:
		v.Set(reflect.ValueOf(apiextensionsv1.JSONSchemaPropsOrStringArray{Property: []string{"a", "b"}}))
		return
	case apiextensionsv1.JSONSchemaProps:
		if depth <= 0 {
			return
		}
	}
	switch v.Kind() { //nolint:exhaustive // other kinds fail the test
	case reflect.Struct:
		for _, f := range v.Fields() {
			fill(t, f, depth)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if _, ok := reflect.TypeAssert[*apiextensionsv1.JSONSchemaProps](v); ok {
			depth--
		}
		fill(t, v.Elem(), depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), depth-1)
		fill(t, v.Index(1), depth-1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, k := range []string{"x", "a.b/c"} {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(t, e, depth-1)
			v.SetMapIndex(reflect.ValueOf(k), e)
		}
	case reflect.String:
		v.SetString("text <&> \u2028 \"é\"")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(1.25)
	default:
		t.Fatalf("no value for %s", v.Type())
	}
}

// TestEveryFieldIsMapped fails when Kubernetes adds a field to JSONSchemaProps that schemaMapper does not know.
func TestEveryFieldIsMapped(t *testing.T) {
	typ := reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()
	for f := range typ.Fields() {
		t.Run(f.Name, func(t *testing.T) {
			var want apiextensionsv1.JSONSchemaProps
			fill(t, reflect.ValueOf(&want).Elem().FieldByIndex(f.Index), 2)
			data, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			trees, ok := parseJSON(string(data), 1)
			if !ok {
				t.Fatalf("cannot parse %s", data)
			}
			m := schemaMapper{t: trees[0]}
			var got apiextensionsv1.JSONSchemaProps
			m.schema(0, &got)
			if err := m.err(0); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, n := range m.unknown {
				t.Errorf("unknown field %s", trees[0].path(0, n))
			}
		})
	}
}

// TestWrongTypesAreRefusedAsUpstream gives every field every kind of value and compares with the API server's decoder.
func TestWrongTypesAreRefusedAsUpstream(t *testing.T) {
	typ := reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()
	values := []string{
		`null`, `true`, `false`, `0`, `5`, `-1.5`, `1.0`, `1e2`, `1e400`, `9223372036854775808`, `""`, `"x"`, `{}`, `[]`, `[null]`, `["x"]`, `[1]`, `[{}]`, `[[]]`,
		`{"a":null}`, `{"a":{}}`, `{"a":["x"]}`, `{"a":1}`, `{"type":"x"}`, `{"type":1}`, `[{"rule":1}]`, `[{"rule":"x","reason":null,"optionalOldSelf":false}]`,
	}
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		for _, v := range values {
			for _, text := range []string{`{"` + name + `":` + v + `}`, `{"items":{"` + name + `":` + v + `}}`, `{"properties":{"p":{"` + name + `":` + v + `}}}`} {
				agree(t, []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"n"},"spec":{"versions":[{"schema":{"openAPIV3Schema":`+text+`}}]}}`))
			}
		}
	}
}
