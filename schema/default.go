package schema

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
			sub := n.Property(k)
			if sub == nil {
				sub = n.Additional
				if x == nil && sub != nil && !sub.Nullable {
					x = sub.Default
				}
			}
			out[k] = WithDefaults(sub, x)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, x := range out {
			if x == nil && n.Items != nil && !n.Items.Nullable {
				x = n.Items.Default
			}
			out[i] = WithDefaults(n.Items, x)
		}
		return out
	}
	return v
}

// SameDefault reports whether two properties get the same value when they are left out. Defaults inside of the default count, so
// that {} is {a: 1} if a has the default 1.
func SameDefault(o, n *Node) bool {
	return o.HasDefault == n.HasDefault && (reflect.DeepEqual(o.Default, n.Default) ||
		reflect.DeepEqual(WithDefaults(o, o.Default), WithDefaults(n, n.Default)))
}
