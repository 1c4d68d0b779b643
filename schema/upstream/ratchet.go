package upstream

// Does an update that changes a label pass although a value is invalid? The API server tolerates errors in values that equal the old ones. For
// example, it does in .spec.a, unless .spec.a has a field that the schema does not declare: then it does not equal itself.

import (
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// sameness says whether ratcheting considers a value equal to itself.
type sameness int

const (
	differs sameness = iota
	same
	unsure
)

// equalsItself reports whether ratcheting considers x equal to itself (common.CorrelatedObject.CachedDeepEqual in
// k8s.io/apiserver/pkg/cel/common). It does not if x has fields that the schema does not declare, or a list of type map with items that
// have no key.
func (n *shapeNode) equalsItself(x any) sameness {
	switch x := x.(type) {
	case map[string]any:
		for name, v := range x {
			child := n.partNode(name)
			if child == nil {
				return differs
			}
			if s := child.equalsItself(v); s != same {
				return s
			}
		}
	case []any:
		if n.listType != "map" {
			return same // compared as a whole
		}
		for _, v := range x {
			switch n.correlatesItem(v) {
			case same:
			case differs:
				return differs
			case unsure:
				return unsure
			}
		}
		if len(x) > 0 && !n.distinctKeys(x) {
			return unsure // an item is compared with the first of its key
		}
		for _, v := range x {
			if s := n.items.equalsItself(v); s != same {
				return s
			}
		}
	}
	return same
}

// correlatesItem reports whether an item of a list of type map is found by its key.
func (n *shapeNode) correlatesItem(item any) sameness {
	o, ok := item.(map[string]any)
	if !ok || !n.array || n.items == nil || len(n.listKeys) == 0 {
		return differs
	}
	for _, key := range n.listKeys {
		switch o[key].(type) {
		case string, int64, bool:
		case float64:
			return unsure
		default:
			return differs
		}
	}
	return same
}

// distinctKeys reports whether a list of type map certainly has no key twice. It knows lists with one or two keys whose values are texts,
// integers or booleans: with several keys, the library compares the texts of the values, and 1 and 1.0 have the same text.
func (n *shapeNode) distinctKeys(list []any) bool {
	switch {
	case len(list) == 1:
		_, ok := list[0].(map[string]any)
		return ok
	case len(n.listKeys) == 0 || len(n.listKeys) > 2:
		return len(list) == 0
	}
	seen := make(map[[2]any]bool, len(list))
	for _, item := range list {
		o, ok := item.(map[string]any)
		if !ok {
			return false
		}
		var key [2]any // a missing key stays nil
		for i, name := range n.listKeys {
			v, has := o[name]
			switch v.(type) {
			case string, int64, bool:
				key[i] = v
			default:
				if has {
					return false
				}
			}
		}
		if seen[key] {
			return false
		}
		seen[key] = true
	}
	return true
}

// partNode is the node of a property, nil if the schema does not know it.
func (n *shapeNode) partNode(name string) *shapeNode {
	if child, ok := n.props[name]; ok {
		return child
	}
	return n.additional
}

// toleratesParts reports whether the properties of the root object o are valid with ratcheting, in an update that only changes a label.
// If a top-level field equals itself, ratcheting tolerates everything below it (RatchetingSchemaValidator in
// k8s.io/apiextensions-apiserver/pkg/apiserver/validation). It may return false for a valid object, but never true for an invalid one.
func (n *valueNode) toleratesParts(o map[string]any, shape *shapeNode) bool {
	for name, v := range o {
		child := n.partNode(name)
		if child == nil {
			continue
		}
		part := shape.partNode(name)
		if part != nil && !isMetaField(name) && part.equalsItself(v) == same {
			continue
		}
		if !child.isValid(v) {
			return false
		}
	}
	return true
}

// explainTouched adds to result why v is not valid, with ratcheting, in an update that does not change it. Errors in a value that
// equals itself are tolerated; branches of junctors are not ratcheted. root is set for the object itself, whose label changes. It
// returns false if it does not know.
func (n *valueNode) explainTouched(v any, shape *shapeNode, path string, root bool, result *validate.Result) bool {
	if n.isValid(v) {
		return true
	}
	if !root {
		if s := shape.equalsItself(v); s != differs {
			return s == same
		}
	}
	list, isList := v.([]any)
	if n.closed || (isList && shape.listType == "map" && !shape.distinctKeys(list)) {
		return false
	}
	ok := true
	n.eachInvalidPart(v, path, func(key any, child *valueNode, part any, at string) {
		if root && key == "metadata" { // its labels differ
			ok = false
		}
		if partShape := shape.comparedPart(key, part, root); partShape == nil {
			child.explainInvalid(part, at, result)
		} else {
			ok = child.explainTouched(part, partShape, at, false, result) && ok
		}
	})
	if !n.validOwn(v) {
		n.explainOwn(v, path, result)
	}
	return ok
}

// comparedPart is the node of a property or an item that ratcheting compares with the old one; nil if it does not.
func (n *shapeNode) comparedPart(key, part any, root bool) *shapeNode {
	switch key := key.(type) {
	case string:
		if !root || !isMetaField(key) {
			return n.partNode(key)
		}
	case int:
		if n.listType == "map" && n.correlatesItem(part) == same {
			return n.items
		}
	}
	return nil
}
