package upstream

// What is left of an object that the API server has read? For example, unknown fields are pruned, nulls are dropped, and defaults are filled
// in. Where shape.go says that nothing changes, nothing is copied.

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
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
	// fromStorage drops malformed metadata, for which a request would be refused, and sets a missing generation.
	fromStorage
)

// errDecode marks errors that an API server answers with status 400, before any validation.
var errDecode = errors.New("cannot decode")

// decoded is an object as the API server has it after decoding and defaulting. It owns its top level and its metadata. The rest may be
// shared with the object that it was decoded from.
type decoded struct {
	object    map[string]any
	pruned    []string
	defaulted bool
	// clean is set if nothing was changed and the metadata are canonical.
	clean bool
}

// decodeObject follows the API server's handling of an object that it reads: unstructuredSchemaCoercer in customresource_handler.go, then
// defaulting.
func (v *Validator) decodeObject(obj map[string]any, from source) (decoded, error) {
	w := v.decodingWork(obj, from)
	if w.needsNothing() {
		return decoded{object: ownTop(obj), clean: true}, nil
	}
	obj = runtime.DeepCopyJSON(obj)
	pruned, err := v.coerceObject(obj, from, w)
	if err != nil {
		return decoded{}, err
	}
	d := decoded{object: obj, pruned: pruned}
	if v.isKnownKind(obj) && v.structural != nil && w.changes&defaults != 0 {
		before := runtime.DeepCopyJSON(obj)
		structuraldefaulting.Default(obj, v.structural)
		d.defaulted = !reflect.DeepEqual(before, obj)
	}
	return d, nil
}

// work says which steps the decoding of an object needs.
type work struct {
	changes change
	meta    bool // the metadata may not be canonical
}

func (w work) needsNothing() bool { return w == work{} }

// decodingWork returns the steps that decoding and defaulting obj need.
func (v *Validator) decodingWork(obj map[string]any, from source) work {
	if v.exact || !v.isKnownKind(obj) {
		return work{prunes | dropsNulls | coerces | defaults, true}
	}
	var w work
	if meta, ok := obj["metadata"]; ok {
		fields, _ := meta.(map[string]any)
		w.meta = !canonicalMeta(meta) || (from == fromStorage && fields["generation"] == nil)
	}
	shape := v.lazyTrees().shape
	mode := notPruned
	if shape != nil && !v.opts.PreserveUnknownFields {
		mode = shape.pruneMode()
	}
	w.changes = shape.changesTo(obj, mode, true)
	return w
}

// convertVersion changes the version of an object (schemaCoercingConverter around the converter for strategy None).
func (v *Validator) convertVersion(obj map[string]any) (decoded, error) {
	obj = ownTop(obj)
	obj["apiVersion"] = v.apiVersion
	w := v.decodingWork(obj, fromRequest)
	if w.needsNothing() {
		return decoded{object: obj, clean: true}, nil
	}
	obj = runtime.DeepCopyJSON(obj)
	pruned, err := v.coerceObject(obj, fromRequest, w)
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

// isKnownKind reports whether an object is of the validator's group, version and kind.
func (v *Validator) isKnownKind(obj map[string]any) bool {
	return obj["kind"] == v.opts.Kind && obj["apiVersion"] == v.apiVersion
}

// coerceObject changes obj itself, with the steps in w. It returns the paths of the fields that it dropped because the schema does not know
// them.
func (v *Validator) coerceObject(obj map[string]any, from source, w work) ([]string, error) {
	drop := from == fromStorage
	var paths []string
	restore := func() error { return nil }
	if w.meta {
		var err error
		if restore, paths, err = rootMeta(obj, drop, v.isKnownKind(obj)); err != nil {
			return nil, err
		}
	}
	if v.isKnownKind(obj) {
		if w.changes&prunes != 0 && v.structural != nil && !v.opts.PreserveUnknownFields {
			paths = append(paths, structuralpruning.PruneWithOptions(obj, v.structural, true,
				structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
		}
		if w.changes&dropsNulls != 0 && v.structural != nil && !v.opts.PreserveUnknownFields {
			structuraldefaulting.PruneNonNullableNullsWithoutDefaults(obj, v.structural)
		}
		if w.changes&coerces != 0 {
			fieldErr, unknown := schemaobjectmeta.CoerceWithOptions(nil, obj, v.structural, false, schemaobjectmeta.CoerceOptions{
				DropInvalidFields:       drop,
				ReturnUnknownFieldPaths: true,
			})
			if fieldErr != nil {
				return nil, fmt.Errorf("%w: %w", errDecode, fieldErr)
			}
			paths = append(paths, unknown...)
		}
	}
	if err := restore(); err != nil {
		return nil, err
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// rootMeta reads the type and object metadata of obj. restore puts them back after pruning. unknown are the paths of fields that do not
// exist in object metadata.
func rootMeta(obj map[string]any, drop, known bool) (restore func() error, unknown []string, err error) {
	kind, hasKind, err := unstructured.NestedString(obj, "kind")
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errDecode, err)
	}
	apiVersion, hasAPIVersion, err := unstructured.NestedString(obj, "apiVersion")
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errDecode, err)
	}
	meta, hasMeta, unknown, err := schemaobjectmeta.GetObjectMetaWithOptions(obj, schemaobjectmeta.ObjectMetaOptions{
		DropMalformedFields:     drop,
		ReturnUnknownFieldPaths: true,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: metadata: %w", errDecode, err)
	}
	if _, err := schema.ParseGroupVersion(apiVersion); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errDecode, err)
	}
	if known && meta != nil && drop && meta.Generation == 0 {
		meta.Generation = 1
	}
	return func() error {
		if hasKind {
			obj["kind"] = kind
		}
		if hasAPIVersion {
			obj["apiVersion"] = apiVersion
		}
		if !hasMeta {
			return nil
		}
		if err := schemaobjectmeta.SetObjectMeta(obj, meta); err != nil {
			return fmt.Errorf("%w: metadata: %w", errDecode, err)
		}
		return nil
	}, unknown, nil
}
