package upstream

// Does decoding or defaulting change an object? For example, {a: 1} stays the same if the schema declares a and no default is missing. Most
// objects do, and need no copy.

import (
	"cmp"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// shapeNode reports whether decoding and defaulting would leave a value unchanged, without copying the value. It agrees exactly with
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/{pruning,defaulting,objectmeta}. If the value would change, that code does the
// work.
type shapeNode struct {
	preserve, embedded, nullable bool
	hasDefault                   bool
	props                        map[string]*shapeNode
	defaulted                    []string // names of props with defaults
	keepsOthers                  bool     // additionalProperties, be it a schema, true or false
	additional                   *shapeNode
	items                        *shapeNode
	anyEmbedded                  bool // here or below
	array                        bool
	listType                     string
	listKeys                     []string
	anyList                      bool // of type set or map, here or below
}

// newShapeNode makes the node of a schema, and notes for each node what is below, so that most values need no walk.
func newShapeNode(s *structuralschema.Structural) *shapeNode {
	if s == nil {
		return nil
	}
	n := &shapeNode{
		preserve: s.XPreserveUnknownFields, embedded: s.XEmbeddedResource, nullable: s.Nullable,
		hasDefault: s.Default.Object != nil, anyEmbedded: s.XEmbeddedResource,
		items: newShapeNode(s.Items), array: s.Type == "array", listKeys: s.XListMapKeys,
	}
	if s.XListType != nil {
		n.listType = *s.XListType
	}
	n.anyList = n.listType == "set" || n.listType == "map"
	if len(s.Properties) > 0 {
		n.props = make(map[string]*shapeNode, len(s.Properties))
		for name := range s.Properties {
			p := s.Properties[name]
			child := newShapeNode(&p)
			n.props[name] = child
			n.adoptFlags(child)
			if child.hasDefault {
				n.defaulted = append(n.defaulted, name)
			}
		}
	}
	if a := s.AdditionalProperties; a != nil {
		n.keepsOthers = true
		n.additional = newShapeNode(a.Structural)
	}
	n.adoptFlags(n.additional)
	n.adoptFlags(n.items)
	return n
}

// adoptFlags notes at n what a child has at it or below, so that a value without such parts needs no walk. nil has
// nothing.
func (n *shapeNode) adoptFlags(child *shapeNode) {
	if child != nil {
		n.anyEmbedded = n.anyEmbedded || child.anyEmbedded
		n.anyList = n.anyList || child.anyList
	}
}

// pruningMode says how the pruning algorithm treats a value.
type pruningMode int

const (
	// notPruned: the algorithm does not visit the value.
	notPruned pruningMode = iota
	// pruned: fields that the schema does not know are dropped.
	pruned
	// skipped: fields that the schema does not know are kept, and known fields are visited (skipPrune).
	skipped
)

// pruneMode returns the mode for a value with the schema n that pruning visits; n may be nil.
func (n *shapeNode) pruneMode() pruningMode {
	if n != nil && n.preserve {
		return skipped
	}
	return pruned
}

// change is a set of changes that decoding and defaulting would make to a value.
type change int

const (
	prunes change = 1 << iota // drop fields that the schema does not know
	dropsNulls
	coerces // touch the metadata of embedded resources
	defaults
)

// changesTo returns changes that would be made to x. If there are several, it may not return all of them, but at least one. n is nil if
// the schema does not know x. root reports whether n is the schema of the resource itself, in which pruning spares apiVersion, kind and
// metadata.
func (n *shapeNode) changesTo(x any, mode pruningMode, root bool) change {
	if n == nil && mode == notPruned {
		return 0
	}
	switch x := x.(type) {
	case map[string]any:
		if n != nil {
			return n.changesObject(x, mode, root)
		}
		if len(x) > 0 {
			return prunes
		}
	case []any:
		n = cmp.Or(n, &shapeNode{})
		return n.items.changesItems(x, mode)
	}
	return 0
}

// changesItems is changesTo for the items of a list, of which n is the schema. mode is that of the list.
func (n *shapeNode) changesItems(list []any, mode pruningMode) (c change) {
	itemMode := notPruned
	switch mode {
	case pruned:
		itemMode = n.pruneMode()
	case skipped:
		if n != nil {
			itemMode = skipped
		}
	case notPruned:
	}
	for _, v := range list {
		if v == nil && n.replacesNull() {
			c |= defaults
		}
		c |= n.changesTo(v, itemMode, false)
	}
	return c
}

// changesObject is changesTo for an object. Pruning spares the fields of metadata, and treats what the schema names in another way than what
// it does not.
func (n *shapeNode) changesObject(x map[string]any, mode pruningMode, root bool) change {
	var c change
	for name, v := range x {
		meta := isMetaField(name)
		child, declared := n.props[name]
		childMode := notPruned
		switch {
		case mode == notPruned, meta && (root || n.embedded):
		case declared:
			childMode = child.pruneMode()
		case n.keepsOthers:
			childMode = n.additional.pruneMode()
		case mode == pruned:
			c |= prunes
			continue
		}
		if !declared {
			child = n.additional
		}
		if v == nil {
			c |= child.changesNull()
		}
		if meta && n.embedded && !cleanMeta(name, v) {
			c |= coerces
		}
		c |= child.changesTo(v, childMode, false)
	}
	for _, name := range n.defaulted {
		if _, ok := x[name]; !ok {
			c |= defaults
		}
	}
	return c
}

// cleanMeta reports whether a field of the type or object metadata of a resource stays as it is.
func cleanMeta(name string, v any) bool {
	if name == "metadata" {
		return canonicalMeta(v)
	}
	_, ok := v.(string)
	return ok
}

// changesNull is what would be done to a null: n, the schema of a property, may allow it or be nil.
func (n *shapeNode) changesNull() change {
	switch {
	case n.replacesNull():
		return defaults
	case n != nil && !n.nullable:
		return dropsNulls
	}
	return 0
}

// replacesNull reports whether the default of an item or of the value of a key replaces null.
func (n *shapeNode) replacesNull() bool { return n != nil && !n.nullable && n.hasDefault }
