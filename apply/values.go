package apply

import (
	"iter"
	"maps"

	smdvalue "sigs.k8s.io/structured-merge-diff/v6/value"
)

// This file has what Go's packages slices and maps do not have for lists of large values and for values of JSON. It knows nothing of
// objects.

// countOf counts the members of a list that are of a sort.
func countOf[T any](list []T, isOf func(*T) bool) int { return len(selectFrom(list, isOf)) }

// selectFrom returns the members of a list that are of a sort: themselves, not copies of them.
func selectFrom[T any](list []T, isOf func(*T) bool) (out []*T) {
	for one := range eachOf(list) {
		if isOf(one) {
			out = append(out, one)
		}
	}
	return out
}

// eachOf gives the members of a list themselves, not copies of them, so that a loop can change them.
func eachOf[T any](list []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

// copyTexts copies the texts among the values of a map in JSON. A value of another type has none.
func copyTexts(to map[string]string, from any) {
	values, _ := from.(map[string]any)
	for k, v := range values {
		if s, ok := v.(string); ok {
			to[k] = s
		}
	}
}

// equalJSON compares JSON values; numbers by their values, not their types.
func equalJSON(a, b any) bool {
	return smdvalue.Equals(smdvalue.NewValueInterface(a), smdvalue.NewValueInterface(b))
}

// isZeroJSON reports whether a JSON value is null, false, zero or empty.
func isZeroJSON(v any) bool {
	switch x := v.(type) {
	case map[string]any:
		return len(x) == 0
	case []any:
		return len(x) == 0
	}
	return v == nil || v == "" || v == false || equalJSON(v, int64(0))
}

// asFloat returns a number of JSON, of either type that [decodeObject] gives it; false for another value.
func asFloat(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// mapsIn returns the maps in a list, in their order; none if it is no list. What else is in the list is left out.
func mapsIn(list any) (out []map[string]any) {
	items, _ := list.([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// conditionsOf returns the conditions in the status of an object.
func conditionsOf(obj map[string]any) []map[string]any {
	status, _ := obj["status"].(map[string]any)
	return mapsIn(status["conditions"])
}

// overlayOn lays the values of a manifest over those of an object. It merges maps key by key. itemOf returns what becomes of an item
// of a list: h is the list of the object, and i the index in w, the list of the manifest. The manifest replaces everything else.
func overlayOn(have, want any, itemOf func(h, w []any, i int) any) any {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok || h == nil { // it was deleted after the plan was made
			return want
		}
		out := maps.Clone(h)
		for k, v := range w {
			out[k] = overlayOn(h[k], v, itemOf)
		}
		return out
	case []any:
		h, ok := have.([]any)
		if !ok {
			return want
		}
		out := make([]any, len(w))
		for i := range w {
			out[i] = itemOf(h, w, i)
		}
		return out
	}
	if have != nil && equalJSON(have, want) {
		return have
	}
	return want
}
