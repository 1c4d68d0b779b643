package upstream

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	schemaobjectmeta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// source says where an object is decoded from.
type source int

const (
	fromRequest source = iota
	// fromStorage drops malformed metadata where a request would be refused, and repairs a missing generation.
	fromStorage
)

// errDecode marks errors that an API server answers with status 400, before any validation.
var errDecode = errors.New("cannot decode")

// decoded is an object as the API server has it after decoding and defaulting. Its top level and its metadata are its own,
// the rest may be shared with what it was decoded from.
type decoded struct {
	object    map[string]any
	pruned    []string
	defaulted bool
	// clean: nothing was changed, and the metadata are canonical.
	clean bool
}

// decode does what the API server does to an object that it reads: unstructuredSchemaCoercer in
// customresource_handler.go, then defaulting.
func (v *Validator) decode(obj map[string]any, from source) (decoded, error) {
	if v.clean(obj, from) {
		return decoded{object: ownTop(obj), clean: true}, nil
	}
	obj = runtime.DeepCopyJSON(obj)
	pruned, err := v.coerce(obj, from)
	if err != nil {
		return decoded{}, err
	}
	d := decoded{object: obj, pruned: pruned}
	if v.known(obj) && v.structural != nil {
		d.defaulted = v.tree().shape.wantsDefaults(obj)
		structuraldefaulting.Default(obj, v.structural)
	}
	return d, nil
}

// convert changes the version of an object (schemaCoercingConverter around the converter for strategy None).
func (v *Validator) convert(obj map[string]any) (decoded, error) {
	obj = ownTop(obj)
	obj["apiVersion"] = v.apiVersion
	if v.clean(obj, fromRequest) {
		return decoded{object: obj, clean: true}, nil
	}
	obj = runtime.DeepCopyJSON(obj)
	pruned, err := v.coerce(obj, fromRequest)
	return decoded{object: obj, pruned: pruned}, err
}

// ownTop copies the top level and the metadata.
func ownTop(obj map[string]any) map[string]any {
	obj = maps.Clone(obj)
	if meta, ok := obj["metadata"].(map[string]any); ok {
		obj["metadata"] = maps.Clone(meta)
	}
	return obj
}

// known tells whether an object is of the validator's group, version and kind.
func (v *Validator) known(obj map[string]any) bool {
	return obj["kind"] == v.opts.Kind && obj["apiVersion"] == v.apiVersion
}

// clean tells whether decoding and defaulting leave obj as it is.
func (v *Validator) clean(obj map[string]any, from source) bool {
	if v.slow || !v.known(obj) {
		return false
	}
	if meta, ok := obj["metadata"]; ok {
		if !canonicalMeta(meta) {
			return false
		}
		if fields, _ := meta.(map[string]any); from == fromStorage && fields["generation"] == nil {
			return false
		}
	}
	shape := v.tree().shape
	mode := notPruned
	if shape != nil && !v.opts.PreserveUnknownFields {
		mode = shape.mode()
	}
	return shape.clean(obj, mode, true)
}

// coerce works on obj itself. It returns the paths of what it dropped because the schema does not know it.
func (v *Validator) coerce(obj map[string]any, from source) ([]string, error) {
	kind, hasKind, err := unstructured.NestedString(obj, "kind")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDecode, err)
	}
	apiVersion, hasAPIVersion, err := unstructured.NestedString(obj, "apiVersion")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDecode, err)
	}
	drop := from == fromStorage
	meta, hasMeta, pruned, err := schemaobjectmeta.GetObjectMetaWithOptions(obj, schemaobjectmeta.ObjectMetaOptions{
		DropMalformedFields:     drop,
		ReturnUnknownFieldPaths: true,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: metadata: %w", errDecode, err)
	}
	if _, err := schema.ParseGroupVersion(apiVersion); err != nil {
		return nil, fmt.Errorf("%w: %w", errDecode, err)
	}

	if v.known(obj) {
		if v.structural != nil && !v.opts.PreserveUnknownFields {
			pruned = append(pruned, structuralpruning.PruneWithOptions(obj, v.structural, true,
				structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
			structuraldefaulting.PruneNonNullableNullsWithoutDefaults(obj, v.structural)
		}
		fieldErr, paths := schemaobjectmeta.CoerceWithOptions(nil, obj, v.structural, false, schemaobjectmeta.CoerceOptions{
			DropInvalidFields:       drop,
			ReturnUnknownFieldPaths: true,
		})
		if fieldErr != nil {
			return nil, fmt.Errorf("%w: %w", errDecode, fieldErr)
		}
		pruned = append(pruned, paths...)
		if meta != nil && drop && meta.Generation == 0 {
			meta.Generation = 1
		}
	}

	if hasKind {
		obj["kind"] = kind
	}
	if hasAPIVersion {
		obj["apiVersion"] = apiVersion
	}
	if hasMeta {
		if err := schemaobjectmeta.SetObjectMeta(obj, meta); err != nil {
			return nil, fmt.Errorf("%w: metadata: %w", errDecode, err)
		}
	}
	slices.Sort(pruned)
	return slices.Compact(pruned), nil
}
