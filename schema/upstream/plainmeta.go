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
	return len(content.IsDNS1123Subdomain(name)) == 0 && v.opts.Namespaced == (namespace != "") &&
		(namespace == "" || len(content.IsDNS1123Label(namespace)) == 0)
}

func plainLabels(meta map[string]any) bool {
	labels, _ := meta["labels"].(map[string]any)
	for k, value := range labels {
		if s, _ := value.(string); len(content.IsLabelKey(k)) > 0 || len(content.IsLabelValue(s)) > 0 {
			return false
		}
	}
	return true
}

func plainFinalizers(meta map[string]any) bool {
	finalizers, _ := meta["finalizers"].([]any)
	return !slices.ContainsFunc(finalizers, func(f any) bool {
		s, _ := f.(string)
		return len(content.IsPrefixedLabelKey(s)) > 0
	})
}

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

func plainOwners(meta map[string]any) bool {
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": meta}}
	return len(metavalidation.ValidateOwnerReferences(u.GetOwnerReferences(), metadataPath)) == 0
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
