package typed

// How does code with Go types ask the evaluator, which judges decoded JSON? The object is converted there and
// back.

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/feature"
)

// Evaluators returns the current evaluator; gate.Gates implements it.
type Evaluators interface {
	Evaluator() *feature.Evaluator
}

// Resource judges objects of type T, which are those of one version of a resource, by the parts that features declare.
type Resource[T any] struct {
	Gates Evaluators
	// GVR is group, version and plural name.
	GVR schema.GroupVersionResource
	// OptedIn reports whether the user or the namespace has opted in to a feature; nil means to none.
	OptedIn func(gate string) bool
}

// Judge judges a write; it is a creation if old is nil. It removes the parts to drop from object. Warnings report these, and uses
// that pass with a warning. The errors are the reasons of a refusal, and then object is unchanged.
//
// The other error means that an object could not be written as JSON, or read back.
func (r *Resource[T]) Judge(object, old *T) (warnings []string, errs field.ErrorList, err error) {
	request := &feature.Request{Group: r.GVR.Group, Version: r.GVR.Version, Resource: r.GVR.Resource, OptedIn: r.OptedIn}
	if request.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object); err != nil {
		return nil, nil, fmt.Errorf("the object as JSON: %w", err)
	}
	if old != nil {
		if request.Old, err = runtime.DefaultUnstructuredConverter.ToUnstructured(old); err != nil {
			return nil, nil, fmt.Errorf("the old object as JSON: %w", err)
		}
	}
	d := r.Gates.Evaluator().Evaluate(request)
	if d.Object != nil {
		var out T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object, &out); err != nil {
			return nil, nil, fmt.Errorf("the object without what is dropped: %w", err)
		}
		*object = out
	}
	return d.Warnings(), d.FieldErrors(), nil
}
