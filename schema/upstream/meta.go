package upstream

// Are the metadata of an object what nearly all metadata are? Then they stay the same when they are decoded, and are valid, and the library is
// not asked. For example, a name and two labels are; a name with capital letters is not, and the library says what is wrong with it.

import (
	"slices"
	"strings"
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

func anyString(v any) bool {
	s, ok := v.(string)
	return ok && utf8.ValidString(s)
}

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

// plainMeta reports whether canonical metadata is certainly valid, at creation and in an update that does not change it
// (metavalidation.ValidateObjectMetaDeclaratively and ValidateObjectMetaAccessor). It returns false for everything unusual.
func (v *Validator) plainMeta(meta map[string]any) bool {
	for _, name := range []string{"generateName", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		if meta[name] != nil {
			return false
		}
	}
	generation, _ := meta["generation"].(int64)
	return generation >= 0 && v.plainName(meta) && plainLabels(meta) && plainAnnotations(meta) && plainFinalizers(meta) &&
		plainOwners(meta) && plainManaged(meta)
}

func (v *Validator) plainName(meta map[string]any) bool {
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	return dnsSubdomain(name) && v.opts.Namespaced == (namespace != "") && (namespace == "" || dnsLabel(namespace))
}

func plainLabels(meta map[string]any) bool {
	labels, _ := meta["labels"].(map[string]any)
	for k, value := range labels {
		if s, _ := value.(string); !qualifiedName(k) || len(s) > 63 || (s != "" && !alphanumericEnds(s)) {
			return false
		}
	}
	return true
}

func plainFinalizers(meta map[string]any) bool {
	finalizers, _ := meta["finalizers"].([]any)
	return !slices.ContainsFunc(finalizers, func(f any) bool {
		s, _ := f.(string)
		return !qualifiedName(s) || !strings.Contains(s, "/")
	})
}

func plainAnnotations(meta map[string]any) bool {
	annotations, _ := meta["annotations"].(map[string]any)
	size := 0
	for k, value := range annotations {
		s, _ := value.(string)
		size += len(k) + len(s)
		if !qualifiedName(strings.ToLower(k)) {
			return false
		}
	}
	return size <= 256<<10
}

func plainOwners(meta map[string]any) bool {
	owners, _ := meta["ownerReferences"].([]any)
	controllers := 0
	for _, o := range owners {
		owner, _ := o.(map[string]any)
		for _, name := range identifying {
			if owner[name] == "" {
				return false
			}
		}
		version, _ := owner["apiVersion"].(string)
		if strings.Count(version, "/") > 1 || strings.HasSuffix(version, "/") || owner["kind"] == "Event" {
			return false
		}
		if owner["controller"] == true {
			controllers++
		}
	}
	return controllers <= 1
}

func plainManaged(meta map[string]any) bool {
	entries, _ := meta["managedFields"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if entry["operation"] != "Apply" && entry["operation"] != "Update" {
			return false
		}
		if t := entry["fieldsType"]; t != nil && t != "FieldsV1" {
			return false
		}
		manager, _ := entry["manager"].(string)
		subresource, _ := entry["subresource"].(string)
		if len(manager) > 128 || len(subresource) > 256 {
			return false
		}
		for i := range len(manager) {
			if manager[i] < ' ' || manager[i] > '~' {
				return false
			}
		}
	}
	return true
}

// qualifiedName reports whether content.IsLabelKey accepts s.
func qualifiedName(s string) bool {
	if prefix, name, ok := strings.Cut(s, "/"); ok {
		if !dnsSubdomain(prefix) {
			return false
		}
		s = name
	}
	return len(s) <= 63 && alphanumericEnds(s)
}

// alphanumericEnds reports whether s consists of letters, digits, '-', '_' and '.', with a letter or digit at both ends.
func alphanumericEnds(s string) bool {
	if s == "" || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func dnsSubdomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if !dnsWord(part) {
			return false
		}
	}
	return true
}

func dnsLabel(s string) bool { return len(s) <= 63 && dnsWord(s) }

func dnsWord(s string) bool {
	if s == "" || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && ('0' > c || c > '9') && ('a' > c || c > 'z') {
			return false
		}
	}
	return true
}
