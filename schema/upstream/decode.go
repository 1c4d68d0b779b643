package upstream

import (
	"errors"
	"fmt"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	schemaobjectmeta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// decode does in place what the API server does to an object that it reads, short of defaulting: unstructuredSchemaCoercer
// in customresource_handler.go. It returns the paths of what it dropped because the schema does not know it.
func (v *Validator) decode(obj map[string]any, from source) ([]string, error) {
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
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDecode, err)
	}

	if gv.Group == v.opts.Group && kind == v.opts.Kind && gv.Version == v.opts.Version {
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

// setDefaults fills in defaults in place.
func (v *Validator) setDefaults(obj map[string]any) {
	structuraldefaulting.Default(obj, v.structural)
}
