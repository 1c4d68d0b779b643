package compat

import (
	"hash/maphash"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/report"
	"sluice.dev/schema"
)

// TestSameSchemaLooksAtEveryField fails when Kubernetes adds a field that sameSchema does not compare, or that the hash does not tell apart.
func TestSameSchemaLooksAtEveryField(t *testing.T) {
	seed := maphash.MakeSeed()
	sameHash := func(a, b *props) bool { return hashOfValues(seed, a) == hashOfValues(seed, b) }
	texts := map[string]bool{"Description": true, "Title": true, "Example": true, "ExternalDocs": true}
	typ := reflect.TypeFor[props]()
	for i := range typ.NumField() {
		field := typ.Field(i)
		changed := &props{}
		reflect.ValueOf(changed).Elem().Field(i).Set(filled(t, field.Type))
		if got, want := sameSchema(&props{}, changed), texts[field.Name]; got != want {
			t.Errorf("%s: same %t, want %t", field.Name, got, want)
		}
		if sameHash(&props{}, changed) != texts[field.Name] || !sameHash(&props{Not: changed}, &props{Not: changed.DeepCopy()}) {
			t.Errorf("%s: the hash says something else", field.Name)
		}
		if !sameSchema(changed, changed.DeepCopy()) {
			t.Errorf("%s: a copy is taken for another schema", field.Name)
		}
		if !sameSchema(&props{Not: changed}, &props{Not: changed.DeepCopy()}) || sameSchema(&props{Not: changed}, &props{Not: &props{}}) != texts[field.Name] {
			t.Errorf("%s: not seen below another schema", field.Name)
		}
	}
	if len(schema.Keywords) != typ.NumField() {
		t.Errorf("%d keywords, %d fields", len(schema.Keywords), typ.NumField())
	}
}

// filled returns a value that is not zero.
func filled(t *testing.T, typ reflect.Type) reflect.Value {
	t.Helper()
	v := reflect.New(typ).Elem()
	switch kind := typ.Kind(); kind { //nolint:exhaustive // the default tells
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64, reflect.Int32:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(typ.Elem()))
		v.Elem().Set(filled(t, typ.Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(typ, 1, 1))
		v.Index(0).Set(filled(t, typ.Elem()))
	case reflect.Uint8:
		v.SetUint('x')
	case reflect.Map:
		v.Set(reflect.MakeMap(typ))
		v.SetMapIndex(reflect.ValueOf("x"), filled(t, typ.Elem()))
	case reflect.Struct:
		switch typ {
		case reflect.TypeFor[props]():
			v.Set(reflect.ValueOf(props{Type: "string"}))
		case reflect.TypeFor[apiextensionsv1.JSON]():
			v.Set(reflect.ValueOf(apiextensionsv1.JSON{Raw: []byte("1")}))
		default:
			for _, field := range v.Fields() {
				field.Set(filled(t, field.Type()))
			}
		}
	default:
		t.Fatalf("no value for %s", typ)
	}
	return v
}

// Whoever decodes a CRD from JSON has its literals as they were written.
func TestLiteralsAreComparedAsStored(t *testing.T) {
	of := func(enum, value string) *crd {
		d := specCRD(t, "a: {type: array, items: {type: number}}\nb: {type: integer}")
		root := d.Spec.Versions[0].Schema.OpenAPIV3Schema
		spec := root.Properties["spec"]
		a, b := spec.Properties["a"], spec.Properties["b"]
		a.Enum = []apiextensionsv1.JSON{{Raw: []byte(enum)}}
		b.Default = &apiextensionsv1.JSON{Raw: []byte(value)}
		spec.Properties["a"], spec.Properties["b"] = a, b
		return d
	}
	given := of("[1.0]", "2.0")
	if r := check(t, given, of("[2]", "2")); r.Verdict != report.Unsafe || r.Findings[0].Rule != "enum-value-removed" {
		t.Errorf("a value that is removed: %v %v", r.Verdict, r.Findings)
	}
	for _, same := range []*crd{of("[1]", "2"), of("[1e0]", "20e-1")} {
		if r := check(t, given, same); r.Verdict != report.IsUnchanged || len(r.Findings) > 0 {
			t.Errorf("the same literals: %v", r.Findings)
		}
	}
	if spec := given.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]; string(spec.Properties["b"].Default.Raw) != "2.0" {
		t.Error("the CRD that was given is changed")
	}
}

// The hash does not depend on the order of a map, nor on whether an empty list is nil.
func TestSameSchemasHaveOneHash(t *testing.T) {
	seed, hashes := maphash.MakeSeed(), map[uint64]bool{}
	for range 20 {
		p := props{Required: []string{}, Properties: map[string]props{}}
		for _, name := range []string{"a", "b", "c", "d"} {
			p.Properties[name] = props{Type: "string", Title: name}
		}
		hashes[hashOfValues(seed, &p)] = true
		p.Required = nil
		hashes[hashOfValues(seed, &p)] = true
	}
	if len(hashes) != 1 {
		t.Errorf("%d hashes", len(hashes))
	}
}
