package compat

// Do two schemas say the same, texts for people aside? The question is asked of thousands of subtrees. For example, a
// new description changes nothing.

import (
	"bytes"
	"hash/maphash"
	"reflect"
)

// schemaFields are the indexes of the fields of a schema that are no texts for people. A keyword that Kubernetes adds
// is compared like the others.
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
		if a.Type().Elem().Kind() == reflect.Uint8 { // the JSON of a default or an enum
			return bytes.Equal(a.Bytes(), b.Bytes())
		}
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

// hashOfValues returns a hash of schemas and of other values. Those that are the same to [sameSchema] have the same hash.
func hashOfValues(seed maphash.Seed, values ...any) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, v := range values {
		hashValue(&h, reflect.ValueOf(v))
	}
	return h.Sum64()
}

// hashValue hashes what [sameValue] compares.
// The entries of a map have no order, so the sum of their hashes stands for them.
func hashValue(h *maphash.Hash, v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // the others have no parts
	case reflect.Pointer:
		maphash.WriteComparable(h, v.IsNil())
		if !v.IsNil() {
			hashValue(h, v.Elem())
		}
	case reflect.Slice:
		maphash.WriteComparable(h, v.Len())
		if v.Type().Elem().Kind() == reflect.Uint8 {
			_, _ = h.Write(v.Bytes())
			return
		}
		for i := range v.Len() {
			hashValue(h, v.Index(i))
		}
	case reflect.Map:
		var sum uint64
		for entry := v.MapRange(); entry.Next(); {
			sum += hashOfValues(h.Seed(), entry.Key().Interface(), entry.Value().Interface())
		}
		maphash.WriteComparable(h, v.Len())
		maphash.WriteComparable(h, sum)
	case reflect.Struct:
		hashFields(h, v)
	default:
		maphash.WriteComparable(h, v.Interface())
	}
}

// hashFields hashes what [sameFields] compares.
func hashFields(h *maphash.Hash, v reflect.Value) {
	if v.Type() == reflect.TypeFor[props]() {
		for _, i := range schemaFields {
			hashValue(h, v.Field(i))
		}
		return
	}
	for _, field := range v.Fields() {
		hashValue(h, field)
	}
}
