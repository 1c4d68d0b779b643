package typed

// Which values of an enum may a client write now? Those that are always valid, those whose feature is on, and
// the one that the stored object has.

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/featuregate"
)

// Enum has the values of an enum, as data: those that are always valid, and those that a feature gates. The feature of a value that
// is introduced in two releases comes from gate.NewEnumValue.
type Enum[V ~string] struct {
	// Values are always valid.
	Values []V
	// Gated are values that are valid if the feature is on, or if the old object has the value.
	Gated map[V]featuregate.Feature
}

// Options are the values of an enum that are valid in one request: what Kubernetes calls validation options.
type Options[V ~string] struct {
	allowed []V
	enum    *Enum[V]
}

// Options returns the valid values. old are the values of the old object: in this field, or, if the field is in items without
// identity, in any of them; none on creation.
func (e *Enum[V]) Options(gates Enabler, old ...V) Options[V] {
	o := Options[V]{enum: e, allowed: slices.Clone(e.Values)}
	for v, name := range e.Gated {
		if gates.Enabled(name) || slices.Contains(old, v) {
			o.allowed = append(o.allowed, v)
		}
	}
	slices.Sort(o.allowed)
	return o
}

// Allowed returns the valid values, sorted.
func (o Options[V]) Allowed() []V { return slices.Clone(o.allowed) }

// Validate returns an error if a value is not valid: Forbidden, with the name of the feature, for a gated value, NotSupported for an
// unknown one. An empty value is valid only if the enum has it.
func (o Options[V]) Validate(path *field.Path, value V) *field.Error {
	if slices.Contains(o.allowed, value) {
		return nil
	}
	if name, gated := o.enum.Gated[value]; gated {
		return field.Forbidden(path, "the value "+quoteValue(value)+" needs feature "+string(name)+", which is off")
	}
	return field.NotSupported(path, value, o.allowed)
}

func quoteValue[V ~string](v V) string { return `"` + string(v) + `"` }
