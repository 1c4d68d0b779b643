package schema_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
)

// TestACopySharesNothing fails as well for a field that Kubernetes adds and does not copy.
func TestACopySharesNothing(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	fillAll(reflect.ValueOf(crd).Elem(), 2)
	out := schema.CopyCRD(crd)
	if diff := cmp.Diff(crd, out); diff != "" {
		t.Errorf("-original +copy:\n%s", diff)
	}
	of := map[uintptr]string{}
	eachMemory(reflect.ValueOf(crd), "", func(at uintptr, path string) { of[at] = path })
	eachMemory(reflect.ValueOf(out), "", func(at uintptr, path string) {
		if was, ok := of[at]; ok {
			t.Errorf("the copy shares %s with %s of the original", path, was)
		}
	})
	if len(of) < 200 {
		t.Errorf("the original has %d places in memory only", len(of))
	}
	if schema.Copy(nil) != nil {
		t.Error("the copy of no schema is a schema")
	}
}

var schemaType = reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()

// fillAll gives every exported field a value. Schemas have schemas in them, that many levels deep.
func fillAll(v reflect.Value, depth int) {
	switch v.Kind() { //nolint:exhaustive // schemas have no values of other kinds
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(v.Elem(), depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 4))
		for i := range v.Len() {
			fillAll(v.Index(i), depth)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillAll(key, depth)
		fillAll(value, depth)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == schemaType {
			if depth == 0 {
				v.FieldByName("Title").SetString("the last level")
				return
			}
			depth--
		}
		for _, f := range v.Fields() {
			if f.CanSet() {
				fillAll(f, depth)
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint('1')
	case reflect.Float64:
		v.SetFloat(1)
	}
}

// eachMemory calls f for what the pointers, slices and maps in v refer to.
func eachMemory(v reflect.Value, path string, f func(at uintptr, path string)) {
	switch v.Kind() { //nolint:exhaustive // schemas have no values of other kinds
	case reflect.Pointer:
		if !v.IsNil() {
			if v.Type().Elem().Size() > 0 {
				f(v.Pointer(), path)
			}
			eachMemory(v.Elem(), path, f)
		}
	case reflect.Slice:
		if v.Cap() > 0 {
			f(v.Pointer(), path)
		}
		for i := range v.Len() {
			eachMemory(v.Index(i), path+"[]", f)
		}
	case reflect.Map:
		if !v.IsNil() {
			f(v.Pointer(), path)
		}
		for _, key := range v.MapKeys() {
			eachMemory(v.MapIndex(key), path+"{}", f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				eachMemory(v.Field(i), path+"."+v.Type().Field(i).Name, f)
			}
		}
	}
}
