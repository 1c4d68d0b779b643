package upstream

// Is a value small enough for the API server's libraries? For example, a value of 10,000 levels is refused before a recursion of theirs
// overflows the stack, and a panic of theirs becomes an error.

import (
	"errors"
	"fmt"
	"math"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
)

// MaxDepth is how deep objects may nest: as deep as the API server's decoder reads them (encoding/json).
const MaxDepth = 10_000

const maxSchemaDepth = schema.MaxDepth

var (
	// ErrTooDeep is returned for an object deeper than [MaxDepth], and a schema deeper than [schema.MaxDepth].
	ErrTooDeep = errors.New("nests too deeply")
	// ErrNotJSON is returned for an object with a value that JSON does not have, or whose Go type is not the one that
	// k8s.io/apimachinery/pkg/util/json decodes to.
	ErrNotJSON = errors.New("not a JSON value")
	// ErrPanic is returned if the API server's libraries panicked. An API server would answer with status 500.
	ErrPanic = errors.New("the API server's libraries panicked")
)

// recoverAsError turns a panic into an error. Every exported function defers it.
func recoverAsError(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", ErrPanic, r)
	}
}

// checkSchema returns an error if a schema is deeper than [schema.MaxDepth].
func checkSchema(s *props, depth int) error {
	if depth > maxSchemaDepth {
		return fmt.Errorf("schema %w", ErrTooDeep)
	}
	for child := range schema.Children(s, schema.Everywhere) {
		if err := checkSchema(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkObject returns an error unless obj is decoded JSON of bounded depth.
func checkObject(obj map[string]any) error {
	if obj == nil {
		return fmt.Errorf("%w: nil is no object", ErrNotJSON)
	}
	return checkValue(obj, 0)
}

// checkValue returns an error unless x is decoded JSON of bounded depth.
func checkValue(x any, depth int) error {
	if depth > MaxDepth {
		return ErrTooDeep
	}
	switch x := x.(type) {
	case nil, bool, int64, string:
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%w: %v", ErrNotJSON, x)
		}
	case map[string]any:
		for _, v := range x {
			if err := checkValue(v, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, v := range x {
			if err := checkValue(v, depth+1); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%w: %T", ErrNotJSON, x)
	}
	return nil
}

// checkSchemas returns an error if a schema of the CRD is deeper than [schema.MaxDepth].
func checkSchemas(crd *apiextensionsv1.CustomResourceDefinition) error {
	for i := range crd.Spec.Versions {
		if s := crd.Spec.Versions[i].Schema; s != nil {
			if err := checkSchema(s.OpenAPIV3Schema, 0); err != nil {
				return fmt.Errorf("CRD %s, version %s: %w", crd.Name, crd.Spec.Versions[i].Name, err)
			}
		}
	}
	return nil
}
