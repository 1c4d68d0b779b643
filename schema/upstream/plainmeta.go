package upstream

import (
	"slices"
	"strings"
)

// Are canonical metadata certainly valid? For example, a name of small letters and two labels are. For a name with capital letters, the library says
// what is wrong with it.
//
// To ask the library, the metadata have to be decoded into their Go type, which takes longer than all other steps for
// a small object together. So this file answers for usual metadata, and leaves everything unusual to the library.

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

// plainName reports whether the name is one that every resource may have, and there is a namespace if and only if the
// resource is namespaced.
func (v *Validator) plainName(meta map[string]any) bool {
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	return dnsSubdomain(name) && v.opts.Namespaced == (namespace != "") && (namespace == "" || dnsLabel(namespace))
}

// plainLabels reports whether all labels are valid.
func plainLabels(meta map[string]any) bool {
	labels, _ := meta["labels"].(map[string]any)
	for k, value := range labels {
		if s, _ := value.(string); !qualifiedName(k) || len(s) > 63 || (s != "" && !alphanumericEnds(s)) {
			return false
		}
	}
	return true
}

// plainFinalizers reports whether all finalizers are valid and have a prefix. Others are left to the API server's
// function.
func plainFinalizers(meta map[string]any) bool {
	finalizers, _ := meta["finalizers"].([]any)
	return !slices.ContainsFunc(finalizers, func(f any) bool {
		s, _ := f.(string)
		return !qualifiedName(s) || !strings.Contains(s, "/")
	})
}

// plainAnnotations reports whether the keys of the annotations are valid in lower case and all annotations together
// are within the limit.
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

// plainOwners asks the API server's own function, which needs no copy of the metadata.
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

// plainManaged reports whether the entries about managers are valid (ValidateManagedFields in
// k8s.io/apimachinery/pkg/apis/meta/v1/validation). Their field sets are not read.
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
