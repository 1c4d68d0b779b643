package upstream

// May a list of type set or map hold an item twice? If it certainly does not, the library is not asked. For example, the list [{name: a},
// {name: b}] with the key name does not.
//
// The library compares the texts of keys and each two items that are objects. Here a set of keys answers for lists of
// scalars and for maps with one or two keys, and everything else goes to the library.

import "slices"

// mayRepeat reports whether a list of type set or map in x may hold an item twice, or otherwise be wrong. It returns false only if
// structurallisttype.ValidateListSetsAndMaps certainly finds no error.
func (n *shapeNode) mayRepeat(x any) bool {
	if n == nil || !n.anyList {
		return false
	}
	switch x := x.(type) {
	case map[string]any:
		for name, v := range x {
			if child, ok := n.props[name]; ok && child.mayRepeat(v) {
				return true
			}
			if n.additional.mayRepeat(v) {
				return true
			}
		}
	case []any:
		switch n.listType {
		case "set":
			if !keysDistinct(x, func(v any) (any, bool) { return v, isScalar(v) }) {
				return true
			}
		case "map":
			if !n.distinctKeys(x) {
				return true
			}
		}
		if slices.ContainsFunc(x, n.items.mayRepeat) {
			return true
		}
	}
	return false
}

// isScalar reports whether a value can be a key of a Go map, so that equal items of a set are found without a
// comparison of each two.
func isScalar(v any) bool {
	switch v.(type) {
	case string, int64, bool, float64, nil:
		return true
	default:
		return false
	}
}

// distinctKeys reports whether a list of type map certainly has no key twice.
func (n *shapeNode) distinctKeys(list []any) bool {
	for _, v := range list {
		if _, ok := v.(map[string]any); !ok {
			return false
		}
	}
	type missing struct{}
	part := func(item any, key string) (any, bool) {
		o, _ := item.(map[string]any)
		v, ok := o[key]
		if !ok {
			return missing{}, true
		}
		switch v.(type) {
		case string, int64, bool:
			return v, true
		default: // with several keys, upstream compares the texts of the values, and 1 and 1.0 have the same text
			return nil, false
		}
	}
	switch len(n.listKeys) {
	case 0:
		return len(list) == 0
	case 1:
		return keysDistinct(list, func(v any) (any, bool) { return part(v, n.listKeys[0]) })
	case 2:
		return keysDistinct(list, func(v any) (any, bool) {
			a, okA := part(v, n.listKeys[0])
			b, okB := part(v, n.listKeys[1])
			return [2]any{a, b}, okA && okB
		})
	default:
		return len(list) < 2
	}
}

// keysDistinct reports whether the keys of the items are known and all different.
func keysDistinct(list []any, key func(any) (any, bool)) bool {
	if len(list) < 2 {
		return true
	}
	seen := make(map[any]struct{}, len(list))
	for _, v := range list {
		k, ok := key(v)
		if !ok {
			return false
		}
		if _, again := seen[k]; again {
			return false
		}
		seen[k] = struct{}{}
	}
	return true
}
