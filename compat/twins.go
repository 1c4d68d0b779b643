package compat

import (
	"slices"

	"sluice.dev/schema"
	"sluice.dev/schema/contain"
)

// twin is a place that both schemas declare, and at which they differ.
type twin struct {
	path     contain.Path
	old, new *schema.Node
}

// maxTwins bounds the search for differing places.
const maxTwins = 1_000_000

// twins yields the places that both schemas declare and at which they differ, in a fixed order, junctors aside. Equal
// subtrees are skipped.
func twins(old, new *schema.Node) func(func(twin) bool) {
	return func(yield func(twin) bool) {
		left := maxTwins
		var walk func(contain.Path, *schema.Node, *schema.Node) bool
		walk = func(path contain.Path, o, n *schema.Node) bool {
			if o == nil || n == nil || o.Hash() == n.Hash() {
				return true
			}
			if left--; left < 0 || !yield(twin{path, o, n}) {
				return false
			}
			under := func(s contain.Step) contain.Path { return append(slices.Clip(path), s) }
			for _, p := range o.Properties {
				if !walk(under(contain.Step{Kind: contain.Field, Name: p.Name}), p.Node, n.Property(p.Name)) {
					return false
				}
			}
			return walk(under(contain.Step{Kind: contain.AnyKey}), o.Additional, n.Additional) &&
				walk(under(contain.Step{Kind: contain.AnyItem}), o.Items, n.Items)
		}
		walk(nil, old, new)
	}
}
