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
type Gated[T any] struct {
	// drop removes the part from object if the feature is off and none of the old objects uses it. It reports whether it removed anything.
	drop func(gates Enabler, object *T, old []*T) bool
}

// DropDisabled removes the parts of disabled features from an object. On creation, with old nil, it removes all of them. On update
// it keeps those that the old object uses, as PrepareForCreate and PrepareForUpdate of Kubernetes' strategies do. It returns the
// number of removed parts, which is worth a warning.
func DropDisabled[T any](gates Enabler, object, old *T, parts ...Gated[T]) int {
	var before []*T
	if old != nil {
		before = []*T{old}
	}
	return dropParts(gates, object, before, parts)
}

// dropParts drops each of the parts, and counts those that were there.
func dropParts[T any](gates Enabler, object *T, old []*T, parts []Gated[T]) (dropped int) {
	for _, p := range parts {
		if p.drop(gates, object, old) {
			dropped++
		}
	}
	return dropped
}

// Field gates a field of objects of type T. at returns the field, or nil if its parent is missing:
//
//	typed.Field("FastPath", func(w *Widget) *Mode { return &w.Spec.Mode })
//
// The field is in use if it is not the zero value. If the old object uses it, with any value, it stays.
func Field[T, F any](name featuregate.Feature, at func(object *T) *F) Gated[T] {
	uses := func(object *T) bool {
		p := at(object)
		return p != nil && !isZero(p)
	}
	return Gated[T]{func(gates Enabler, object *T, old []*T) bool {
		if !uses(object) || gates.Enabled(name) || slices.ContainsFunc(old, uses) {
			return false
		}
		var zero F
		*at(object) = zero
		return true
	}}
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
	return Gated[T]{func(gates Enabler, object *T, old []*T) bool {
		before := map[K][]*I{}
		for _, o := range old {
			items := list(o)
			for i := range items {
				k := key(&items[i])
				before[k] = append(before[k], &items[i])
			}
		}
		dropped := 0
		items := list(object)
		for i := range items {
			item := &items[i]
			dropped += dropParts(gates, item, before[key(item)], parts)
		}
		return dropped > 0
	}}
}

// Entries gates parts of the values of a map. Values returns the map, which is changed in place; an entry is compared with that of the
// same key in the old object.
func Entries[T, V any, K comparable](values func(object *T) map[K]V, parts ...Gated[V]) Gated[T] {
	return Gated[T]{func(gates Enabler, object *T, old []*T) bool {
		dropped := 0
		entries := values(object)
		for k, v := range entries {
			var same []*V
			for _, o := range old {
				if before, ok := values(o)[k]; ok {
					same = append(same, &before)
				}
			}
			if n := dropParts(gates, &v, same, parts); n > 0 {
				entries[k] = v
				dropped += n
			}
		}
		return dropped > 0
	}}
}
