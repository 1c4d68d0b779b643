package upstream

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	return len(content.IsDNS1123Subdomain(name)) == 0 && v.opts.Namespaced == (namespace != "") &&
		(namespace == "" || len(content.IsDNS1123Label(namespace)) == 0)
}

// plainLabels reports whether all labels are valid.
func plainLabels(meta map[string]any) bool {
	labels, _ := meta["labels"].(map[string]any)
	for k, value := range labels {
		if s, _ := value.(string); len(content.IsLabelKey(k)) > 0 || len(content.IsLabelValue(s)) > 0 {
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
		return len(content.IsPrefixedLabelKey(s)) > 0
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
		if len(content.IsLabelKey(strings.ToLower(k))) > 0 {
			return false
		}
	}
	return size <= metavalidation.TotalAnnotationSizeLimitB
}

// plainOwners asks the API server's own function, which needs no copy of the metadata.
func plainOwners(meta map[string]any) bool {
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": meta}}
	return len(metavalidation.ValidateOwnerReferences(u.GetOwnerReferences(), metadataPath)) == 0
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
