package schema

// What does a value look like with its defaults? For example, {} becomes {a: 1} if a has the default 1. An item that is null becomes the
// default of the items, if null is not allowed.

import (
	"maps"
	"reflect"
	"slices"
)

// WithDefaults fills the defaults of n into v, as k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting does. It does not
// modify v; the result may share parts with v.
func WithDefaults(n *Node, v any) any {
	if n == nil {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		return n.fillObject(v)
	case []any:
		out := slices.Clone(v)
		for i, x := range out {
			out[i] = WithDefaults(n.Items, n.Items.inPlaceOfNull(x))
		}
		return out
	}
	return v
}

// fillObject is [WithDefaults] for an object. It fills in missing properties first, and then goes into all of them: a
// default that was just filled in gets the defaults below it, too. A null counts as missing unless the property is
// nullable.
func (n *Node) fillObject(v map[string]any) map[string]any {
	out := maps.Clone(v)
	for _, p := range n.Properties {
		if !p.Node.HasDefault {
			continue
		}
		if x, ok := out[p.Name]; !ok || x == nil && !p.Node.Nullable {
			out[p.Name] = p.Node.Default
		}
	}
	for k, x := range out {
		if sub := n.Property(k); sub != nil {
			out[k] = WithDefaults(sub, x)
		} else {
			out[k] = WithDefaults(n.Additional, n.Additional.inPlaceOfNull(x))
		}
	}
	return out
}

// inPlaceOfNull returns an item, or the value of a key, and the default in place of a null that n does not allow.
func (n *Node) inPlaceOfNull(x any) any {
	if x == nil && n != nil && !n.Nullable {
		return n.Default
	}
	return x
}

// SameDefault reports whether two properties get the same value when they are left out. Defaults inside of the default count, so
// that {} is {a: 1} if a has the default 1.
func SameDefault(o, n *Node) bool {
	return o.HasDefault == n.HasDefault && (reflect.DeepEqual(o.Default, n.Default) ||
		reflect.DeepEqual(WithDefaults(o, o.Default), WithDefaults(n, n.Default)))
}
