package upstream

import (
	"errors"
	"fmt"
	"math"
)

// MaxDepth is how deep objects may nest: as deep as the API server's decoder reads them (encoding/json).
const MaxDepth = 10_000

var (
	// ErrTooDeep is returned for an object deeper than [MaxDepth].
	ErrTooDeep = errors.New("object nests too deeply")
	// ErrNotJSON is returned for an object with a value that JSON does not have, or of another Go type than
	// k8s.io/apimachinery/pkg/util/json decodes it to.
	ErrNotJSON = errors.New("not a JSON value")
	// ErrPanic is returned where the API server's libraries panicked. An API server would answer with status 500.
	ErrPanic = errors.New("the API server's libraries panicked")
)

// recovered turns a panic into an error. It is deferred by every exported function.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", ErrPanic, r)
	}
}

// checkObject says whether obj is an object that decoded JSON can be, with bounded depth.
func checkObject(obj map[string]any) error {
	if obj == nil {
		return fmt.Errorf("%w: nil is no object", ErrNotJSON)
	}
	return checkValue(obj, 0)
}

// checkValue says whether x is a value that decoded JSON can be, with bounded depth.
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
