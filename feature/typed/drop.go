// Package typed helps code that handles objects as Go values with features. It drops disabled parts, as the strategies of
// Kubernetes' own API server do, and lists the valid values of an enum.
//
// There are two ways. [Resource] judges objects by the declared parts of features, with the evaluator of the webhook, which agrees
// with the policies: there is nothing to write but the declaration. [Field], [Items] and [Enum] are for code that is written by
// hand, with any gate ([Enabler]), also one of k8s.io/component-base. They need no declaration of parts and no conversion.
//
// In both, uses in the old object stay allowed. The package reads no settings and makes no requests.
package typed

import (
	"reflect"
	"slices"

	"k8s.io/component-base/featuregate"
)

// Enabler reports which features are on: gate.Gates and the gates of component-base implement it.
type Enabler interface {
	Enabled(name featuregate.Feature) bool
}

// Gated is a part of objects of type T that a feature gates.
type Gated[T any] interface {
	// drop removes the part from object if the feature is off and none of the old objects uses it. It reports whether it removed anything.
	dropPart(gates Enabler, object *T, old []*T) bool
}

// DropDisabled removes the parts of disabled features from an object. On creation, with old nil, it removes all of them. On update
// it keeps those that the old object uses, as PrepareForCreate and PrepareForUpdate of Kubernetes' strategies do. It returns the
// number of removed parts, which is worth a warning.
func DropDisabled[T any](gates Enabler, object, old *T, parts ...Gated[T]) int {
	var before []*T
	if old != nil {
		before = []*T{old}
	}
	n := 0
	for _, p := range parts {
		if p.dropPart(gates, object, before) {
			n++
		}
	}
	return n
}

// Field gates a field of objects of type T. at returns the field, or nil if its parent is missing:
//
//	typed.Field("FastPath", func(w *Widget) *Mode { return &w.Spec.Mode })
//
// The field is in use if it is not the zero value. If the old object uses it, with any value, it stays.
func Field[T, F any](name featuregate.Feature, at func(object *T) *F) Gated[T] {
	return &gatedField[T, F]{name, at}
}

type gatedField[T, F any] struct {
	name featuregate.Feature
	at   func(*T) *F
}

func (f *gatedField[T, F]) usesField(object *T) bool {
	p := f.at(object)
	return p != nil && !isZero(p)
}

func (f *gatedField[T, F]) dropPart(gates Enabler, object *T, old []*T) bool {
	if !f.usesField(object) || gates.Enabled(f.name) || slices.ContainsFunc(old, f.usesField) {
		return false
	}
	var zero F
	*f.at(object) = zero
	return true
}

// isZero reports whether a field counts as missing. An empty slice or map does, because JSON omits both.
func isZero[F any](p *F) bool {
	v := reflect.ValueOf(p).Elem()
	switch v.Kind() { //nolint:exhaustive // the others have no length
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

// Items gates parts of the items of a list. list returns the items, which are changed in place. key identifies an item, so that it
// is compared with the item of the same key in the old object, at any place. If several old items have the key, a use in one of
// them is enough. key is nil if items have no identity, as in a list without x-kubernetes-list-map-keys. Then each item is compared
// with all old items, because the nearest ancestor with a key counts.
func Items[T, I any, K comparable](list func(object *T) []I, key func(item *I) K, parts ...Gated[I]) Gated[T] {
	if key == nil {
		key = func(*I) (none K) { return none }
	}
	return &gatedItems[T, I, K]{list, key, parts}
}

type gatedItems[T, I any, K comparable] struct {
	list  func(*T) []I
	key   func(*I) K
	parts []Gated[I]
}

func (l *gatedItems[T, I, K]) dropPart(gates Enabler, object *T, old []*T) bool {
	before := map[K][]*I{}
	for _, o := range old {
		list := l.list(o)
		for i := range list {
			k := l.key(&list[i])
			before[k] = append(before[k], &list[i])
		}
	}
	dropped := false
	list := l.list(object)
	for i := range list {
		item := &list[i]
		if dropParts(gates, item, before[l.key(item)], l.parts) {
			dropped = true
		}
	}
	return dropped
}

// Entries gates parts of the values of a map. Values returns the map, which is changed in place; an entry is compared with that of the
// same key in the old object.
func Entries[T, V any, K comparable](values func(object *T) map[K]V, parts ...Gated[V]) Gated[T] {
	return &gatedEntries[T, V, K]{values, parts}
}

type gatedEntries[T, V any, K comparable] struct {
	values func(*T) map[K]V
	parts  []Gated[V]
}

func (m *gatedEntries[T, V, K]) dropPart(gates Enabler, object *T, old []*T) bool {
	before := make([]map[K]V, len(old))
	for i, o := range old {
		before[i] = m.values(o)
	}
	dropped := false
	values := m.values(object)
	for k, v := range values {
		var same []*V
		for _, b := range before {
			if o, ok := b[k]; ok {
				same = append(same, &o)
			}
		}
		if dropParts(gates, &v, same, m.parts) {
			values[k] = v
			dropped = true
		}
	}
	return dropped
}

// dropParts drops each of the parts.
func dropParts[T any](gates Enabler, object *T, old []*T, parts []Gated[T]) (dropped bool) {
	for _, p := range parts {
		if p.dropPart(gates, object, old) {
			dropped = true
		}
	}
	return dropped
}
