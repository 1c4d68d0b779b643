package compat

// Do two schemas say the same, texts for people aside? The question is asked of thousands of subtrees, so it compares fields and makes no
// copies. For example, a new description changes nothing.

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// sameSchema reports whether two schemas are equal but for description, title, example and external documentation. It is
// stricter than the hash of their nodes: whatever the API server could object to has to be equal.
func sameSchema(a, b *props) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b || sameKeywords(a, b) && sameChildren(a, b)
}

// sameKeywords compares what is no schema itself.
func sameKeywords(a, b *props) bool {
	return a.ID == b.ID && a.Schema == b.Schema && samePointer(a.Ref, b.Ref) &&
		a.Type == b.Type && a.Format == b.Format && a.Nullable == b.Nullable && a.Pattern == b.Pattern &&
		sameJSON(a.Default, b.Default) && slices.EqualFunc(a.Enum, b.Enum, func(x, y apiextensionsv1.JSON) bool { return bytes.Equal(x.Raw, y.Raw) }) &&
		sameBounds(a, b) && a.UniqueItems == b.UniqueItems && slices.Equal(a.Required, b.Required) && sameExtensions(a, b)
}

// sameBounds compares the bounds of numbers, and of lengths and sizes.
func sameBounds(a, b *props) bool {
	return samePointer(a.Maximum, b.Maximum) && a.ExclusiveMaximum == b.ExclusiveMaximum &&
		samePointer(a.Minimum, b.Minimum) && a.ExclusiveMinimum == b.ExclusiveMinimum && samePointer(a.MultipleOf, b.MultipleOf) &&
		samePointer(a.MaxLength, b.MaxLength) && samePointer(a.MinLength, b.MinLength) &&
		samePointer(a.MaxItems, b.MaxItems) && samePointer(a.MinItems, b.MinItems) &&
		samePointer(a.MaxProperties, b.MaxProperties) && samePointer(a.MinProperties, b.MinProperties)
}

// sameExtensions compares the keywords of Kubernetes.
func sameExtensions(a, b *props) bool {
	return samePointer(a.XPreserveUnknownFields, b.XPreserveUnknownFields) && a.XEmbeddedResource == b.XEmbeddedResource &&
		a.XIntOrString == b.XIntOrString && slices.Equal(a.XListMapKeys, b.XListMapKeys) &&
		samePointer(a.XListType, b.XListType) && samePointer(a.XMapType, b.XMapType) &&
		(len(a.XValidations) == 0 && len(b.XValidations) == 0 || reflect.DeepEqual(a.XValidations, b.XValidations))
}

func sameChildren(a, b *props) bool {
	return sameMap(a.Properties, b.Properties) && sameMap(a.PatternProperties, b.PatternProperties) &&
		sameMap(a.Definitions, b.Definitions) && sameItems(a.Items, b.Items) &&
		sameOrBool(a.AdditionalProperties, b.AdditionalProperties) && sameOrBool(a.AdditionalItems, b.AdditionalItems) &&
		sameList(a.AllOf, b.AllOf) && sameList(a.OneOf, b.OneOf) && sameList(a.AnyOf, b.AnyOf) && sameSchema(a.Not, b.Not) &&
		maps.EqualFunc(a.Dependencies, b.Dependencies, func(x, y apiextensionsv1.JSONSchemaPropsOrStringArray) bool {
			return slices.Equal(x.Property, y.Property) && sameSchema(x.Schema, y.Schema)
		})
}

func samePointer[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func sameJSON(a, b *apiextensionsv1.JSON) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.Raw, b.Raw)
}

func sameMap(a, b map[string]props) bool {
	if len(a) != len(b) {
		return false
	}
	for k := range a {
		x, y := a[k], b[k]
		if _, ok := b[k]; !ok || !sameSchema(&x, &y) {
			return false
		}
	}
	return true
}

func sameList(a, b []props) bool {
	return slices.EqualFunc(a, b, func(x, y props) bool { return sameSchema(&x, &y) })
}

func sameItems(a, b *apiextensionsv1.JSONSchemaPropsOrArray) bool {
	if a == nil || b == nil {
		return a == b
	}
	return sameSchema(a.Schema, b.Schema) && sameList(a.JSONSchemas, b.JSONSchemas)
}

func sameOrBool(a, b *apiextensionsv1.JSONSchemaPropsOrBool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Allows == b.Allows && sameSchema(a.Schema, b.Schema)
}
