package upstream

import (
	"strings"
	"time"
	"unicode/utf8"
)

// canonicalMeta reports whether an object's metadata stays the same if it is decoded into its Go type and encoded again
// (schemaobjectmeta.GetObjectMeta, SetObjectMeta). It may return false for such metadata, but never true for other metadata. It does
// not validate the metadata.
func canonicalMeta(v any) bool {
	meta, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for name, v := range meta {
		var ok bool
		switch name {
		case "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion":
			ok = fullString(v)
		case "generation":
			i, isInt := v.(int64)
			ok = isInt && i != 0
		case "creationTimestamp", "deletionTimestamp":
			ok = canonicalTime(v)
		case "deletionGracePeriodSeconds":
			_, ok = v.(int64)
		case "labels", "annotations":
			ok = stringMap(v)
		case "ownerReferences":
			ok = fullList(v, canonicalOwner)
		case "finalizers":
			ok = fullList(v, anyString)
		case "managedFields":
			ok = fullList(v, canonicalManaged)
		}
		if !ok {
			return false
		}
	}
	return true
}

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
	for _, v := range l {
		if !item(v) {
			return false
		}
	}
	return true
}

func canonicalOwner(v any) bool {
	owner, ok := v.(map[string]any)
	if !ok {
		return false
	}
	always := 0
	for name, v := range owner {
		switch name {
		case "apiVersion", "kind", "name", "uid":
			always++
			if !anyString(v) {
				return false
			}
		case "controller", "blockOwnerDeletion":
			if _, ok := v.(bool); !ok {
				return false
			}
		default:
			return false
		}
	}
	return always == 4
}

func canonicalManaged(v any) bool {
	entry, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for name, v := range entry {
		var ok bool
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			ok = fullString(v)
		case "time":
			ok = canonicalTime(v)
		case "fieldsV1":
			_, isMap := v.(map[string]any)
			ok = isMap && fieldSet(v)
		}
		if !ok {
			return false
		}
	}
	return true
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
	text := func(name string) string { s, _ := meta[name].(string); return s }
	if !dnsSubdomain(text("name")) || meta["generateName"] != nil || meta["selfLink"] != nil {
		return false
	}
	if namespace := text("namespace"); v.opts.Namespaced != (namespace != "") || (namespace != "" && !dnsLabel(namespace)) {
		return false
	}
	if generation, _ := meta["generation"].(int64); generation < 0 {
		return false
	}
	for _, name := range []string{"deletionTimestamp", "deletionGracePeriodSeconds"} {
		if meta[name] != nil {
			return false
		}
	}
	labels, _ := meta["labels"].(map[string]any)
	for k, value := range labels {
		if s, _ := value.(string); !qualifiedName(k) || len(s) > 63 || (s != "" && !alphanumericEnds(s)) {
			return false
		}
	}
	if !plainAnnotations(meta) {
		return false
	}
	finalizers, _ := meta["finalizers"].([]any)
	for _, f := range finalizers {
		if s, _ := f.(string); !qualifiedName(s) || !strings.Contains(s, "/") {
			return false
		}
	}
	return plainOwners(meta) && plainManaged(meta)
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
		for _, name := range []string{"apiVersion", "kind", "name", "uid"} {
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
