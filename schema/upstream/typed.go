package upstream

// Can anything be applied to a stored object? For example, if a field that is a list now holds a string, no server-side apply passes, whatever
// it applies.

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// gotValue matches what structured-merge-diff prints of a value, in the form of Go.
var gotValue = regexp.MustCompile(`, got &?(?s:.*)$`)

// typeErrorsText is the text of errors about types, in the order of their paths and without values.
func typeErrorsText(err error) string {
	all, ok := errors.AsType[typed.ValidationErrors](err)
	if !ok {
		return err.Error()
	}
	var texts []string
	for _, e := range all {
		texts = append(texts, gotValue.ReplaceAllString(e.Error(), ""))
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), "; ")
}

// RefusedNulls returns the errors about null in a manifest that is applied. A server-side apply fills in defaults and, unlike other requests,
// keeps null where the schema does not allow it (Apply in k8s.io/apimachinery/pkg/util/managedfields/internal/structuredmerge.go), so
// that validation refuses it. The manifest is not changed.
func (v *Validator) RefusedNulls(manifest map[string]any) (errs field.ErrorList) {
	if v.structural == nil || v.opts.PreserveUnknownFields {
		return nil
	}
	obj := runtime.DeepCopyJSON(manifest)
	structuraldefaulting.Default(obj, v.structural)
	for _, e := range v.validateSchema(obj) {
		if e.Type == field.ErrorTypeTypeInvalid && e.BadValue == "null" {
			errs = append(errs, e)
		}
	}
	return errs
}

// Unappliable says why an API server refuses every server-side apply to a stored object, whatever is applied; empty if it does not. Then
// the object has a value of another type than the schema says. An update may replace the value. An apply is merged with the stored
// object by the types of the schema. stored is not changed. The error says why there is no verdict.
func (v *Validator) Unappliable(stored map[string]any) (why string, err error) {
	defer recoverAsError(&err)
	if v.structural == nil || v.opts.PreserveUnknownFields {
		return "", nil
	}
	read, err := v.decodeObject(stored, fromStorage)
	if err != nil {
		return "", err
	}
	converter := v.types.getOrCreate(func() *typeConverter {
		s := v.structural.ToKubeOpenAPI()
		s.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": v.opts.Group, "version": v.opts.Version, "kind": v.opts.Kind}})
		// What the schema does not know was pruned, or is part of every object.
		c, err := managedfields.NewTypeConverter(map[string]*spec.Schema{"object": s}, true)
		return &typeConverter{c, err}
	})
	if converter.err != nil {
		return "", converter.err
	}
	if _, err := converter.ObjectToTyped(&unstructured.Unstructured{Object: read.object}, typed.AllowDuplicates); err != nil {
		return typeErrorsText(err), nil
	}
	return "", nil
}
