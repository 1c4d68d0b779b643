package compat

// Do two schemas say the same, texts for people aside? The question is asked of thousands of subtrees. For
// example, a new description
// changes nothing.

import "reflect"

// schemaFields are the indexes of the fields of a schema that are no texts for people. A keyword that
// Kubernetes adds is compared like the
// others.
var schemaFields = func() (out []int) {
	for i := range reflect.TypeFor[props]().NumField() {
		switch reflect.TypeFor[props]().Field(i).Name {
		case "Description", "Title", "Example", "ExternalDocs":
		default:
			out = append(out, i)
		}
	}
	return out
}()

// sameSchema reports whether two schemas are equal but for description, title, example and external documentation. It is
// stricter than the hash of their nodes: whatever the API server could object to has to be equal. A nil schema
// equals nil alone.
func sameSchema(a, b *props) bool { return sameValue(reflect.ValueOf(a), reflect.ValueOf(b)) }

// sameValue compares a part of two schemas, of one type. An empty list or map equals nil.
func sameValue(a, b reflect.Value) bool {
	switch a.Kind() { //nolint:exhaustive // the others have no parts
	case reflect.Pointer:
		if a.Pointer() == b.Pointer() || a.IsNil() || b.IsNil() {
			return a.Pointer() == b.Pointer()
		}
		return sameValue(a.Elem(), b.Elem())
	case reflect.Slice:
		same := a.Len() == b.Len()
		for i := 0; same && i < a.Len(); i++ {
			same = sameValue(a.Index(i), b.Index(i))
		}
		return same
	case reflect.Map:
		same := a.Len() == b.Len()
		for entry := a.MapRange(); same && entry.Next(); {
			other := b.MapIndex(entry.Key())
			same = other.IsValid() && sameValue(entry.Value(), other)
		}
		return same
	case reflect.Struct:
		return sameFields(a, b)
	}
	return a.Equal(b)
}

// sameFields compares structs: schemas without their texts, and all of others such as validation rules.
func sameFields(a, b reflect.Value) bool {
	if a.Type() == reflect.TypeFor[props]() {
		for _, i := range schemaFields {
			if !sameValue(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	for i := range a.NumField() {
		if !sameValue(a.Field(i), b.Field(i)) {
			return false
		}
	}
	return true
}
