package upstream

// Can anything be applied to a stored object? For example, if a field that is a list now holds a string, no server-side apply passes, whatever
// it applies.

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	converter := v.convertsTypes()
	if converter.err != nil {
		return "", converter.err
	}
	if _, err := converter.ObjectToTyped(&unstructured.Unstructured{Object: read.object}, typed.AllowDuplicates); err != nil {
		return typeErrorsText(err), nil
	}
	return "", nil
}

// HasSetsOfCompounds reports whether the schema has a list of type set whose items can be objects or lists. No request is refused because of an item
// in it, but every server-side apply to the object is: it finds the items of a set by their values, which must be scalars (setItemToPathElement in
// sigs.k8s.io/structured-merge-diff, typed/helpers.go).
func (v *Validator) HasSetsOfCompounds() (found bool) {
	if v.structural == nil {
		return false
	}
	visitor := structuralschema.Visitor{Structural: func(s *structuralschema.Structural) bool {
		if s.XListType != nil && *s.XListType == "set" && s.Items != nil {
			items := s.Items
			found = found || items.Type == "object" || items.Type == "array" || items.Type == "" && !items.XIntOrString
		}
		return false
	}}
	visitor.Visit(v.structural)
	return found
}

// convertsTypes has the types of the schema, once.
func (v *Validator) convertsTypes() *typeConverter {
	return v.types.getOrCreate(func() *typeConverter {
		s := v.structural.ToKubeOpenAPI()
		s.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": v.opts.Group, "version": v.opts.Version, "kind": v.opts.Kind}})
		// What the schema does not know was pruned, or is part of every object.
		c, err := managedfields.NewTypeConverter(map[string]*spec.Schema{"object": s}, true)
		return &typeConverter{c, err}
	})
}

// Apply is a server-side apply of a manifest to an object of the schema.
type Apply struct {
	Schema   *Validator
	Manifest map[string]any
}

// ApplyInTurn returns the object after some applies by one manager. It follows the types of the schemas alone: nothing is validated, pruned or
// filled in. No manifest is changed.
func ApplyInTurn(applies ...Apply) (obj map[string]any, err error) {
	defer recoverAsError(&err)
	for _, apply := range applies {
		v, types := apply.Schema, apply.Schema.convertsTypes()
		if obj == nil {
			obj = map[string]any{"apiVersion": apply.Manifest["apiVersion"], "kind": apply.Manifest["kind"], "metadata": apply.Manifest["metadata"]}
		}
		if types.err != nil {
			return nil, types.err
		}
		gvk := schema.GroupVersionKind{Group: v.opts.Group, Version: v.opts.Version, Kind: v.opts.Kind}
		m, err := managedfields.NewDefaultCRDFieldManager(types, asItIs{}, asItIs{}, asItIs{}, gvk, gvk.GroupVersion(), "", nil)
		if err != nil {
			return nil, err
		}
		live := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(obj)}
		out, err := m.Apply(live, &unstructured.Unstructured{Object: runtime.DeepCopyJSON(apply.Manifest)}, "applier", true)
		if err != nil {
			return nil, err
		}
		if u, ok := out.(*unstructured.Unstructured); ok && u != nil { // nil: nothing changes
			obj = u.Object
		}
	}
	if meta, ok := obj["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
	return obj, nil
}

// asItIs is the conversion, defaulting and creation of objects of one version.
type asItIs struct{}

// ConvertToVersion implements runtime.ObjectConvertor, as do the next two.
func (asItIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (asItIs) Convert(_, _, _ any) error { return errors.New("no conversion") }

func (asItIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default implements runtime.ObjectDefaulter.
func (asItIs) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (asItIs) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	return u, nil
}
