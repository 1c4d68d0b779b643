package upstream

// Do the metadata of an object stay the same when they are decoded and encoded? Most do, and need no copy. For example, a time with a zone other than
// Z does not.

import (
	"slices"
	"time"
	"unicode/utf8"
)

// canonicalMeta reports whether an object's metadata stays the same if it is decoded into its Go type and encoded again
// (schemaobjectmeta.GetObjectMeta, SetObjectMeta). It may return false for such metadata, but never true for other metadata. It does
// not validate the metadata.
func canonicalMeta(v any) bool { return fieldsPass(v, canonicalFields) }

// canonicalFields, ownerFields and managedFields have the fields of metadata, of owners and of entries about managers, and a test of each that
// values pass which stay the same.
var (
	canonicalFields = map[string]func(any) bool{
		"name": fullString, "generateName": fullString, "namespace": fullString, "selfLink": fullString, "uid": fullString, "resourceVersion": fullString,
		"generation":        func(v any) bool { return isA[int64](v) && v != int64(0) },
		"creationTimestamp": canonicalTime, "deletionTimestamp": canonicalTime, "deletionGracePeriodSeconds": isA[int64],
		"labels": stringMap, "annotations": stringMap,
		"ownerReferences": func(v any) bool { return fullList(v, canonicalOwner) },
		"finalizers":      func(v any) bool { return fullList(v, anyString) },
		"managedFields":   func(v any) bool { return fullList(v, canonicalManaged) },
	}
	ownerFields = map[string]func(any) bool{
		"apiVersion": anyString, "kind": anyString, "name": anyString, "uid": anyString, "controller": isA[bool], "blockOwnerDeletion": isA[bool],
	}
	managedFields = map[string]func(any) bool{
		"manager": fullString, "operation": fullString, "apiVersion": fullString, "fieldsType": fullString, "subresource": fullString,
		"time": canonicalTime, "fieldsV1": fieldSet,
	}
)

// fieldsPass reports whether v is an object whose fields all have a test and pass it.
func fieldsPass(v any, tests map[string]func(any) bool) bool {
	fields, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for name, v := range fields {
		if test := tests[name]; test == nil || !test(v) {
			return false
		}
	}
	return true
}

func isA[T any](v any) bool { _, ok := v.(T); return ok }

// identifying are the fields of an owner that are encoded even if they are empty.
var identifying = []string{"apiVersion", "kind", "name", "uid"}

func canonicalOwner(v any) bool {
	owner, _ := v.(map[string]any)
	return fieldsPass(v, ownerFields) && !slices.ContainsFunc(identifying, func(name string) bool { return owner[name] == nil })
}

func canonicalManaged(v any) bool { return fieldsPass(v, managedFields) }

// anyString reports whether v is a text of valid UTF-8; encoding replaces other bytes.
func anyString(v any) bool {
	s, ok := v.(string)
	return ok && utf8.ValidString(s)
}

// fullString reports whether v is a text that is not empty: an empty one is dropped when metadata are encoded.
func fullString(v any) bool { return anyString(v) && v != "" }

// canonicalTime reports whether v is a time that metav1.Time encodes to the same text.
func canonicalTime(v any) bool {
	s, ok := v.(string)
	if !ok || len(s) != len("2006-01-02T15:04:05Z") || s[len(s)-1] != 'Z' {
		return false
	}
	t, err := time.Parse(time.RFC3339, s)
	return err == nil && !t.IsZero()
}

// stringMap reports whether v is a map of texts with an entry: an empty map of labels or annotations is dropped when
// metadata are encoded.
func stringMap(v any) bool {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return false
	}
	for k, v := range m {
		if !utf8.ValidString(k) || !anyString(v) {
			return false
		}
	}
	return true
}

// fullList reports whether v is a list with an item, and all items pass. An empty list is dropped when metadata are
// encoded.
func fullList(v any, item func(any) bool) bool {
	l, ok := v.([]any)
	if !ok || len(l) == 0 {
		return false
	}
	return !slices.ContainsFunc(l, func(v any) bool { return !item(v) })
}

// fieldSet reports whether v consists only of maps, as the field sets in managedFields do.
func fieldSet(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for k, v := range m {
		if !utf8.ValidString(k) || !fieldSet(v) {
			return false
		}
	}
	return true
}
