package contain

// Is a demand of the new schema the same as one of the old schema? For example, an unchanged maximum needs no search, unless what it is
// about has changed.
//
// A finding about a keyword that nobody touched would puzzle its reader. So the cause names the change that gave the
// keyword another meaning: a type, a default, or a field that a rule mentions.

import (
	"fmt"
	"reflect"
	"slices"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// sayTheSame reports whether one of the old node's pieces is the same formula, so that no search is needed. The pieces of the node in
// Options.Within hold of the old values, too.
func (w *walker) sayTheSame(o place, x piece) bool {
	if o.kind != declared {
		return false
	}
	if w.hasPiece(o, x) {
		return true
	}
	o.node = w.within[o.node]
	return o.node != nil && w.hasPiece(o, x)
}

// hasPiece reports whether one of the pieces at a place of an old schema is the same formula.
func (w *walker) hasPiece(o place, x piece) bool {
	key := pieceKey{o.cacheKey(), o.node}
	said, ok := w.said[key]
	if !ok {
		said = map[pieceID]bool{}
		for _, y := range w.old.piecesAt(o) {
			said[w.idOf(y)] = true
		}
		if w.said == nil {
			w.said = map[pieceKey]map[pieceID]bool{}
		}
		w.said[key] = said
	}
	return said[w.idOf(x)]
}

// pairNodes notes which node of Options.Within stands where an old node stands.
func (w *walker) pairNodes(old, wide *schema.Node) {
	if old == nil || wide == nil || old == wide || !w.opts.Work.Charge(1) {
		return
	}
	if known, ok := w.within[old]; ok && known != wide {
		wide = nil
	}
	w.within[old] = wide
	if wide == nil {
		return
	}
	for _, c := range old.Properties {
		w.pairNodes(c.Node, wide.Property(c.Name))
	}
	w.pairNodes(old.Items, wide.Items)
	w.pairNodes(old.Additional, wide.Additional)
}

func (w *walker) idOf(x piece) pieceID {
	return pieceID{x.keyword, w.memory.Table.ID(x.formula, w.opts.Work)}
}

// sameKeys reports whether a list of type map has the same keys on both sides, and their defaults make no difference, because no item
// of the old schema lacks a key.
func (w *walker) sameKeys(o, n place, x piece) bool {
	if x.keyword != "x-kubernetes-list-type" || o.kind != declared || !sameKeyNames(o.node, n.node) {
		return false
	}
	return !slices.ContainsFunc(n.node.ListMapKeys, func(key string) bool {
		a, b := o.node.Items.Property(key), n.node.Items.Property(key)
		if a == nil || b == nil || a.Type != b.Type || a.Format != b.Format || a.IntOrString != b.IntOrString || a.Nullable != b.Nullable || a.Type == "object" || a.Type == "array" {
			return true
		}
		return !schema.SameDefault(a, b) && !w.provedLocally(o.itemPlace(), logic.And{logic.Kinds(logic.Object), logic.Lacks{Name: key}})
	})
}

// actualCause names the actual change if the keyword of a piece is the same on both sides. It is empty if the keyword itself changed.
func (w *walker) actualCause(o, n place, x piece) string {
	if o.kind != declared || !w.keywordAlike(o, n.node, x) {
		return ""
	}
	var names map[string]bool
	if x.rule != nil {
		if parsed, err := w.opts.sharedLibrary().parseRule(x.rule.Rule); err == nil {
			names = parsed.Names()
		}
	}
	if x.keyword == "required" {
		names = map[string]bool{x.detail: true}
	}
	c := changes{}
	path := w.publicPath()
	if c.findChange(path, o.node, n.node, names, 0); c.first == "" && names != nil {
		c.findChange(path, o.node, n.node, nil, 0)
	}
	return c.first
}

// keywordAlike reports whether the keyword of a piece of n is written in the same way at o.
func (w *walker) keywordAlike(at place, n *schema.Node, x piece) bool {
	o := at.node
	branches := func(a, b []*schema.Node) bool {
		return slices.EqualFunc(a, b, func(p, q *schema.Node) bool { return p.Hash() == q.Hash() })
	}
	switch x.keyword {
	case "required":
		return slices.Contains(o.Required, x.detail)
	case "format":
		return o.Format == n.Format
	case "x-kubernetes-list-type":
		return o.ListType == n.ListType && slices.Equal(o.ListMapKeys, n.ListMapKeys)
	case "x-kubernetes-embedded-resource":
		return o.Embedded
	case keywordRules:
		return slices.ContainsFunc(o.Rules, func(r schema.Rule) bool {
			return r.Rule == x.rule.Rule && hasOptionalOldSelf(&r) == hasOptionalOldSelf(x.rule)
		})
	case "allOf":
		return slices.ContainsFunc(o.AllOf, func(b *schema.Node) bool { return b.Hash() == n.AllOf[x.index].Hash() })
	case "anyOf":
		return branches(o.AnyOf, n.AnyOf)
	case "oneOf":
		return branches(o.OneOf, n.OneOf)
	case "not":
		return o.Not.Hash() == n.Not.Hash()
	case "minimum":
		return w.hasValueOf(at, x) && o.ExclusiveMinimum == n.ExclusiveMinimum
	case "maximum":
		return w.hasValueOf(at, x) && o.ExclusiveMaximum == n.ExclusiveMaximum
	}
	return w.hasValueOf(at, x)
}

// hasValueOf reports whether the keyword of a piece has the same value in the old node.
func (w *walker) hasValueOf(o place, x piece) bool {
	return x.before != nil && reflect.DeepEqual(w.counterpart(o, x), x.before)
}

// changes finds the first difference between two nodes that can change the meaning of another keyword.
type changes struct{ first string }

// findChange compares two nodes and the nodes below; only the properties in names, unless names is nil.
func (c *changes) findChange(path Path, o, n *schema.Node, names map[string]bool, depth int) {
	if c.first != "" || depth > schema.MaxDepth || o.Hash() == n.Hash() {
		return
	}
	if o == nil || n == nil {
		c.recordFirst(path, "is %s now", map[bool]string{true: "declared", false: "no longer declared"}[o == nil])
		return
	}
	if c.compareKeywords(path, o, n); c.first != "" {
		return
	}
	below := func(s Step) Path { return append(slices.Clip(path), s) }
	told := func(name string) bool { return names == nil || names[name] }
	for _, p := range n.Properties {
		if told(p.Name) {
			c.findChange(below(Step{Field, p.Name}), o.Property(p.Name), p.Node, names, depth+1)
		}
	}
	for _, p := range o.Properties {
		if told(p.Name) && n.Property(p.Name) == nil {
			c.recordFirst(below(Step{Field, p.Name}), "is gone")
		}
	}
	c.findChange(below(Step{Kind: AnyItem}), o.Items, n.Items, names, depth+1)
	c.findChange(below(Step{Kind: AnyKey}), o.Additional, n.Additional, names, depth+1)
}

// recordFirst records a difference at the path, unless one was found before. The empty path is called "the object".
func (c *changes) recordFirst(path Path, format string, args ...any) {
	if c.first != "" {
		return
	}
	at := path.String()
	if at == "" {
		at = "the object"
	}
	c.first = at + " " + fmt.Sprintf(format, args...)
}

// compareKeywords compares the keywords that change the meaning of others: types, defaults and those that keep unknown fields.
func (c *changes) compareKeywords(path Path, o, n *schema.Node) {
	a, b := place{node: o}, place{node: n}
	switch {
	case typeName(a) != typeName(b):
		c.recordFirst(path, "has the type %v instead of %v", typeOrAny(b), typeOrAny(a))
	case o.HasDefault && !n.HasDefault:
		c.recordFirst(path, "has lost its default")
	case !o.HasDefault && n.HasDefault:
		c.recordFirst(path, "has a default now")
	case !schema.SameDefault(o, n):
		c.recordFirst(path, "has another default")
	case o.Nullable && !n.Nullable:
		c.recordFirst(path, "is no longer nullable")
	case !o.Nullable && n.Nullable:
		c.recordFirst(path, "is nullable now")
	case o.Format != n.Format:
		c.recordFirst(path, "has another format")
	case o.PreserveUnknown != n.PreserveUnknown, !reflect.DeepEqual(o.AdditionalBool, n.AdditionalBool):
		c.recordFirst(path, "keeps other fields than before")
	case o.Embedded != n.Embedded:
		c.recordFirst(path, "changed x-kubernetes-embedded-resource")
	case o.ListType != n.ListType, !slices.Equal(o.ListMapKeys, n.ListMapKeys):
		c.recordFirst(path, "has another x-kubernetes-list-type")
	}
}

// typeOrAny is the type of a place for a text: "any" if the schema does not say one.
func typeOrAny(p place) any {
	if t := typeName(p); t != nil {
		return t
	}
	return "any"
}
