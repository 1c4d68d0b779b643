package compat

// At which places do both schemas declare something, and differ? For example, spec.replicas with maximum 5 on one side and 9 on the other;
// a field that only one side has is no such place.

import (
	"sluice.dev/schema"
	"sluice.dev/schema/contain"
)

// twin is a place that both schemas declare, and at which they differ.
type twin struct {
	// path is valid until the next twin. Copy it to keep it.
	path     contain.Path
	old, new *schema.Node
}

// maxTwins bounds the search for differing places.
const maxTwins = 1_000_000

// differingTwins yields the places that both schemas declare and at which they differ, in a fixed order, junctors aside. Equal
// subtrees are skipped.
// Hashes of nodes decide whether subtrees are equal, so the walk costs as much as what differs, not as much as the
// schemas.
func differingTwins(old, new *schema.Node) func(func(twin) bool) {
	return func(yield func(twin) bool) {
		left := maxTwins
		var walk func(path contain.Path, o, n *schema.Node) bool
		differ := func(o, n *schema.Node) bool { return o != nil && n != nil && o.Hash() != n.Hash() }
		walk = func(path contain.Path, o, n *schema.Node) bool {
			if left--; left < 0 || !yield(twin{path, o, n}) {
				return false
			}
			below := func(s contain.Step, o, n *schema.Node) bool {
				return !differ(o, n) || walk(append(path, s), o, n)
			}
			for _, p := range o.Properties {
				if !below(contain.Step{Kind: contain.Field, Name: p.Name}, p.Node, n.Property(p.Name)) {
					return false
				}
			}
			return below(contain.Step{Kind: contain.AnyKey}, o.Additional, n.Additional) &&
				below(contain.Step{Kind: contain.AnyItem}, o.Items, n.Items)
		}
		if differ(old, new) {
			walk(nil, old, new)
		}
	}
}
