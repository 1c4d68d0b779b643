package typed

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/feature"
)

// Evaluators give the evaluator of what is on now: gate.Gates does.
type Evaluators interface {
	Evaluator() *feature.Evaluator
}

// Resource judges objects of type T, which are those of one version of a resource, by the parts that features declare.
type Resource[T any] struct {
	Gates Evaluators
	// GVR is group, version and plural name.
	GVR schema.GroupVersionResource
	// OptedIn tells whether user or namespace have opted in to a feature; nil: to none.
	OptedIn func(gate string) bool
}

// Judge says what becomes of a write: of a creation where old is nil. What is to be dropped is taken out of object. Warnings
// tell of that and of uses that pass with a warning; the errors say why it is refused, and object is as it was then.
//
// The other error says that an object could not be written as JSON, or read back.
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
