package contain

// Which values does a schema accept? For example, {type: integer, maximum: 5} becomes the integers up to 5, as raw values before defaults.
//
// The formulas are about raw values, and pruning, defaults and nulls are part of them: a value that the API server
// would change is not accepted as it is. Each keyword is one piece, so that a finding can name it.

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// acceptedAt is true of the raw values that are accepted at p and not changed by pruning.
func (t *translator) acceptedAt(p place) logic.Formula {
	if p.kind == anything {
		return logic.True
	}
	key := p.cacheKey()
	return logic.Lazy{ID: key, Make: func() logic.Formula {
		if f, ok := t.cache[key]; ok {
			return f
		}
		f := t.expandAccepted(p)
		t.cache[key] = f
		return f
	}}
}

// expandAccepted makes the formula of acceptedAt: the type, the keywords, and the places of the parts. A place that is pruned accepts nothing,
// because an object with a value there is changed.
func (t *translator) expandAccepted(p place) logic.Formula {
	switch p.kind {
	case gone:
		return logic.False
	case emptied:
		return logic.And{logic.Rest{F: logic.False}, logic.Items{F: t.acceptedAt(place{kind: emptied, pos: atItem})}}
	case declared, anything:
	}
	n := p.node
	out := logic.And{t.acceptedKinds(n)}
	if p.losesNull() {
		out = append(out, logic.Kinds(logic.NonNull))
	}
	for _, x := range t.piecesAt(p) {
		out = append(out, x.formula)
	}
	return append(out, p.partsSatisfy(t.acceptedAt)...)
}

// partsSatisfy is true of values whose parts are as f says of their places: the properties, all other keys, and the items. A part of which f
// says nothing, as logic.True, is left out.
func (p place) partsSatisfy(f func(place) logic.Formula) (out logic.And) {
	demands := func(at place) (logic.Formula, bool) {
		g := f(at)
		and, ok := g.(logic.And)
		return g, !ok || len(and) > 0
	}
	var names []string
	for _, c := range p.node.Properties {
		names = append(names, c.Name)
		if g, ok := demands(p.childPlace(c.Name)); ok {
			out = append(out, logic.Prop{Name: c.Name, F: g})
		}
	}
	if p.hasMeta() {
		names = append(names, metaFields...)
	}
	if g, ok := demands(p.restPlace()); ok {
		out = append(out, logic.Rest{Except: logic.NamesExcept(names...), F: g})
	}
	if g, ok := demands(p.itemPlace()); ok {
		out = append(out, logic.Items{F: g})
	}
	return out
}

// acceptedKinds is true of values of the JSON types that a node accepts, null included.
func (t *translator) acceptedKinds(n *schema.Node) logic.Formula {
	k, integral := typeKinds(n)
	if t.effectiveFormat(n) != "" && !n.IntOrString {
		// If a format is checked, kube-openapi's typeValidator accepts strings and lists only, whether the type is string or missing.
		k = logic.String | logic.Array
	}
	if n.Nullable || n.Type == "" && !n.IntOrString {
		k |= logic.Null
	}
	f := logic.AnyKinds(k)
	if integral {
		return logic.And{f, logic.Integral{Exact: !n.IntOrString}}
	}
	return f
}

// typeKinds returns the kinds of the type, without null, and whether floats have to be integral.
func typeKinds(n *schema.Node) (logic.Kind, bool) {
	if n.IntOrString {
		return logic.Number | logic.String, true
	}
	switch n.Type {
	case "integer":
		return logic.Number, true
	case "number":
		return logic.Number, false
	case "string":
		return logic.String, false
	case "boolean":
		return logic.Bool, false
	case "array":
		return logic.Array, false
	case "object":
		return logic.Object, false
	case "":
		return logic.NonNull, false
	}
	return 0, false // no value has a type that does not exist
}

// piecesAt returns the demands of the keywords of the node at p, except types, children and pruning.
func (t *translator) piecesAt(p place) []piece {
	key := pieceKey{p.cacheKey(), p.node}
	out, ok := t.parts[key]
	if !ok {
		out = t.translateKeywords(p)
		t.parts[key] = out
	}
	return out
}

// translateKeywords makes the pieces of piecesAt. Where null is allowed, only the enum says something about it.
func (t *translator) translateKeywords(p place) []piece {
	n := p.node
	out := t.valuePieces(n, p)
	if n.ListType == "set" {
		by := logic.UniqueBy{Text: t.comparesText(n.Items, compounds), Defaults: t.opts.sharedLibrary().defaultsText(n.Items)}
		out = append(out, piece{keyword: "x-kubernetes-list-type", formula: logic.Unique{By: by}})
	}
	if n.ListType == "map" {
		keys := slices.Sorted(slices.Values(n.ListMapKeys))
		by := t.equalByKeys(n, keys)
		out = append(out, piece{keyword: "x-kubernetes-list-type", formula: logic.And{
			logic.Items{F: logic.Kinds(logic.Object | logic.Null)}, logic.Unique{By: by},
		}})
	}
	if n.Embedded {
		out = append(out, piece{keyword: "x-kubernetes-embedded-resource", formula: t.embeddedResource(n, p.unchecked)})
	}
	out = append(out, t.rulePieces(n, p)...)
	if n.Nullable || n.Type == "" && !n.IntOrString { // for null, only the type and the enum count
		for i := range out {
			if out[i].keyword != "enum" {
				out[i].formula = logic.Or{logic.Kinds(logic.Null), out[i].formula}
			}
		}
	}
	return out
}

// valuePieces returns the pieces of n for keywords that a junctor can also have. The structural node at the same place is p.node.
func (t *translator) valuePieces(n *schema.Node, p place) []piece {
	var out []piece
	add := func(keyword string, f logic.Formula, before any) {
		out = append(out, piece{keyword: keyword, formula: f, before: before})
	}
	t.addNumberBounds(n, add)
	if n.MinLength != nil {
		add("minLength", logic.Length{Min: max(*n.MinLength, 0), Max: logic.Unbounded}, *n.MinLength)
	}
	if n.MaxLength != nil {
		add("maxLength", atMost(*n.MaxLength, logic.String, func(m int64) logic.Formula { return logic.Length{Max: m} }), *n.MaxLength)
	}
	if n.Pattern != "" {
		if _, err := regexp.Compile(n.Pattern); err != nil {
			add("pattern", logic.Kinds(logic.AnyKind&^logic.String), n.Pattern)
		} else {
			add("pattern", logic.Pattern{Expr: n.Pattern}, n.Pattern)
		}
	}
	if f := t.effectiveFormat(n); f != "" && f != "password" && isStringFormat(n) { // which every string is
		add("format", logic.Format{Name: f}, n.Format)
	}
	if len(n.Enum) > 0 {
		add("enum", t.opts.sharedLibrary().enumFormula(n, p), n.Enum)
	}
	if n.MinItems != nil {
		add("minItems", logic.NumItems{Min: max(*n.MinItems, 0), Max: logic.Unbounded}, *n.MinItems)
	}
	if n.MaxItems != nil {
		add("maxItems", atMost(*n.MaxItems, logic.Array, func(m int64) logic.Formula { return logic.NumItems{Max: m} }), *n.MaxItems)
	}
	if n.UniqueItems {
		add("uniqueItems", logic.Unique{By: logic.UniqueBy{Defaults: t.opts.sharedLibrary().defaultsText(p.node.Items)}}, true)
	}
	t.addObjectPieces(n, p, &out)
	t.addJunctorPieces(n, p, &out)
	if len(n.Odd) > 0 {
		h := n.Hash()
		add(n.Odd[0], logic.Opaque{ID: "a schema with " + strings.Join(n.Odd, ", ") + " " + string(h[:])}, nil)
	}
	return out
}

// atMost is an upper bound on a count; a negative one refuses every value of the kind.
func atMost(limit int64, k logic.Kind, f func(int64) logic.Formula) logic.Formula {
	if limit < 0 {
		return logic.Kinds(logic.AnyKind &^ k)
	}
	return f(limit)
}

// addObjectPieces translates required and the bounds on the number of properties. Defaults are filled in before both are checked.
func (t *translator) addObjectPieces(n *schema.Node, p place, out *[]piece) {
	for _, name := range n.Required {
		var f logic.Formula
		c := p.childPlace(name)
		switch {
		case c.kind == declared && c.node.HasDefault && p.node.Property(name) != nil:
			continue // filled in before validation
		case c.kind == declared && !c.node.Nullable:
			f = logic.And{logic.Has{Name: name}, logic.Prop{Name: name, F: logic.Kinds(logic.NonNull)}}
		default:
			f = logic.Has{Name: name}
		}
		*out = append(*out, piece{keyword: "required", detail: name, formula: f})
	}
	var filled []string // properties that defaulting may add
	for _, c := range p.node.Properties {
		if !c.Node.HasDefault {
			continue
		}
		filled = append(filled, c.Name)
		// If a schema refuses its own default, it refuses every object without the property. (Today's API server admits no such CRD.) If
		// rules leave that open, the API server's check of the CRD has decided it.
		if n == p.node && logic.Eval(t.acceptedAt(p.childPlace(c.Name)), t.opts.sharedLibrary().withDefault(c.Node), t.opts.solverStrings()) == logic.No {
			*out = append(*out, piece{keyword: "default", detail: c.Name, formula: logic.Has{Name: c.Name}})
		}
	}
	count := func(keyword string, bound *int64, f logic.Formula) {
		if bound == nil {
			return
		}
		if len(filled) > 0 {
			f = countDefaulted(keyword, *bound, filled)
		}
		*out = append(*out, piece{keyword: keyword, formula: f, before: *bound})
	}
	if n.MinProperties != nil {
		count("minProperties", n.MinProperties, logic.NumProps{Min: max(*n.MinProperties, 0), Max: logic.Unbounded})
	}
	if n.MaxProperties != nil {
		count("maxProperties", n.MaxProperties, atMost(*n.MaxProperties, logic.Object, func(m int64) logic.Formula { return logic.NumProps{Max: m} }))
	}
}

// addJunctorPieces adds one piece for each branch of allOf, because each is a demand of its own with a finding of its
// own, and one for each of the other junctors. The index tells the branches of allOf apart.
func (t *translator) addJunctorPieces(n *schema.Node, p place, out *[]piece) {
	branches := func(ns []*schema.Node, allOf bool) []logic.Formula {
		fs := make([]logic.Formula, len(ns))
		for i, b := range ns {
			fs[i] = t.nestedFormula(b, p, allOf)
		}
		return fs
	}
	for i, f := range branches(n.AllOf, true) {
		*out = append(*out, piece{keyword: "allOf", formula: f, index: i})
	}
	if len(n.AnyOf) > 0 {
		*out = append(*out, piece{keyword: "anyOf", formula: logic.Or(branches(n.AnyOf, false))})
	}
	if len(n.OneOf) > 0 {
		*out = append(*out, piece{keyword: "oneOf", formula: t.exactlyOne(n, branches(n.OneOf, false))})
	}
	if n.Not != nil {
		*out = append(*out, piece{keyword: "not", formula: logic.Not(t.nestedFormula(n.Not, p, false))})
	}
}

// exactlyOne is true of the values for which exactly one of the branches of n is true. Its size is the square of theirs.
func (t *translator) exactlyOne(n *schema.Node, fs []logic.Formula) logic.Formula {
	if !t.opts.Work.Charge(int64(len(fs)) * int64(len(fs))) {
		h := n.Hash()
		return logic.Opaque{ID: "a oneOf of too many branches " + string(h[:])}
	}
	nots := make([]logic.Formula, len(fs))
	for i, f := range fs {
		nots[i] = logic.Not(f)
	}
	or := make(logic.Or, len(fs))
	for i, f := range fs {
		and := make(logic.And, 0, len(fs))
		and = append(and, f)
		and = append(and, nots[:i]...)
		or[i] = append(and, nots[i+1:]...)
	}
	return or
}

// nestedFormula is the formula of a branch of a junctor at p.
func (t *translator) nestedFormula(n *schema.Node, p place, inAllOf bool) logic.Formula {
	key := nestedKey{n.Hash(), p.cacheKey(), inAllOf}
	return logic.Lazy{ID: key, Small: true, Make: func() logic.Formula {
		f, ok := t.branches[key]
		if !ok {
			f = t.expandNested(n, p, inAllOf)
			t.branches[key] = f
		}
		return f
	}}
}

// expandNested makes the formula of a branch of a junctor at p. A branch has no say in pruning, so it only restricts
// values. Types count only if the branch has one, or a checked format, for which the library takes strings and lists
// alone.
func (t *translator) expandNested(n *schema.Node, p place, inAllOf bool) logic.Formula {
	out := logic.And{}
	if n.Type != "" || n.IntOrString || t.effectiveFormat(n) != "" {
		out = append(out, t.acceptedKinds(n))
	}
	for _, x := range t.valuePieces(n, p) {
		out = append(out, x.formula)
	}
	out = append(out, t.nestedProperties(n, p, inAllOf)...)
	if n.Items != nil {
		out = append(out, logic.Items{F: t.nestedFormula(n.Items, p.itemPlace().orAnything(), inAllOf)})
	}
	out = append(out, t.nestedRules(n, p, inAllOf)...)
	// For null, only the type and the enum of a branch count.
	if (n.Nullable || n.Type == "" && !n.IntOrString) && len(n.Enum) == 0 {
		return logic.Or{logic.Kinds(logic.Null), out}
	}
	return append(out, logic.Kinds(logic.NonNull))
}

// nestedProperties are the statements of a branch about the properties, named or not.
func (t *translator) nestedProperties(n *schema.Node, p place, inAllOf bool) (out []logic.Formula) {
	var names []string
	for _, c := range n.Properties {
		names = append(names, c.Name)
		out = append(out, t.nestedProperty(c.Name, c.Node, p, inAllOf))
	}
	switch {
	case n.Additional != nil:
		for _, c := range p.node.Properties { // these may have defaults
			if n.Property(c.Name) == nil {
				names = append(names, c.Name)
				out = append(out, t.nestedProperty(c.Name, n.Additional, p, inAllOf))
			}
		}
		out = append(out, logic.Rest{Except: logic.NamesExcept(names...), F: t.nestedFormula(n.Additional, p.restPlace().orAnything(), inAllOf)})
	case n.AdditionalBool != nil && !*n.AdditionalBool:
		for _, c := range p.node.Properties {
			if c.Node.HasDefault && n.Property(c.Name) == nil { // the default fills it in
				out = append(out, logic.Kinds(logic.AnyKind&^logic.Object))
			}
		}
		out = append(out, logic.Rest{Except: logic.NamesExcept(names...), F: logic.False})
	}
	return out
}

// nestedProperty is the statement of a branch about a property. If the property is missing, it is about its default.
func (t *translator) nestedProperty(name string, n *schema.Node, p place, inAllOf bool) logic.Formula {
	c := p.childPlace(name).orAnything()
	f := t.nestedFormula(n, c, inAllOf)
	present := logic.Prop{Name: name, F: f}
	d := p.node.Property(name)
	if p.kind != declared || d == nil || !d.HasDefault {
		return present
	}
	switch logic.Eval(f, schema.WithDefaults(d, d.Default), t.opts.solverStrings()) {
	case logic.Yes:
		return present
	case logic.No:
		return logic.And{logic.Or{logic.Kinds(logic.AnyKind &^ logic.Object), logic.Has{Name: name}}, present}
	case logic.Unsure:
	}
	h, b := d.Hash(), n.Hash()
	return logic.And{present, logic.Or{
		logic.Has{Name: name}, logic.Opaque{ID: "the default of " + name + " " + string(h[:]) + string(b[:])},
	}}
}

// orAnything replaces a pruned place by one that accepts anything.
func (p place) orAnything() place {
	if p.kind == declared {
		return p
	}
	return place{node: &schema.Node{PreserveUnknown: true}, pos: p.pos, keep: true}
}

// countDefaulted is true if the number of properties is within the bound after defaulting. If defaulting adds few properties, it is
// exact, with one case for each combination.
func countDefaulted(keyword string, bound int64, filled []string) logic.Formula {
	if len(filled) > 6 {
		opaque := logic.Opaque{ID: fmt.Sprintf("%s %d after defaulting %q", keyword, bound, filled)}
		return logic.Or{logic.Kinds(logic.AnyKind &^ logic.Object), countRoughly(keyword, bound, int64(len(filled)), opaque)}
	}
	var out logic.Or
	for mask := range 1 << len(filled) {
		and := logic.And{}
		missing := int64(0)
		for i, name := range filled {
			if mask&(1<<i) != 0 {
				and = append(and, logic.Lacks{Name: name})
				missing++
			} else {
				and = append(and, logic.Has{Name: name})
			}
		}
		if keyword == "minProperties" {
			and = append(and, logic.NumProps{Min: max(bound-missing, 0), Max: logic.Unbounded})
		} else {
			and = append(and, atMost(bound-missing, logic.Object, func(m int64) logic.Formula { return logic.NumProps{Max: m} }))
		}
		out = append(out, and)
	}
	return logic.Or{logic.Kinds(logic.AnyKind &^ logic.Object), out}
}

// countRoughly has the statements about a count that do not depend on which properties are missing, if at most added of them are;
// exactly has the rest.
func countRoughly(keyword string, bound, added int64, exactly logic.Formula) logic.Formula {
	if keyword == "minProperties" {
		if bound <= added {
			return logic.True
		}
		return logic.And{
			logic.NumProps{Min: bound - added, Max: logic.Unbounded},
			logic.Or{logic.NumProps{Min: bound, Max: logic.Unbounded}, exactly},
		}
	}
	if bound < added {
		return logic.False
	}
	return logic.And{logic.NumProps{Max: bound}, logic.Or{logic.NumProps{Max: bound - added}, exactly}}
}

// comparesText reports whether values of the node may be of these kinds, whose JSON text is compared.
func (t *translator) comparesText(n *schema.Node, kinds logic.Kind) bool {
	if n == nil || t.effectiveFormat(n) != "" {
		return true // anything, or lists
	}
	k, _ := typeKinds(n)
	return k&kinds != 0
}

// equalByKeys says when items of a list-type map are equal: keys that are lists or objects by their text, numbers by their text
// where there are several keys (validateListMap in k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype).
func (t *translator) equalByKeys(n *schema.Node, keys []string) logic.UniqueBy {
	return logic.UniqueBy{
		Text: true, Numbers: len(keys) != 1 || !t.mayBeNumber(n.Items.Property(keys[0])),
		Keys: strings.Join(keys, "\x00"), Defaults: keyDefaults(n, keys),
	}
}

// mayBeNumber reports whether the key of a list item can be a number, whose JSON text decides whether two items are
// equal. A key that the schema does not declare can be anything.
func (t *translator) mayBeNumber(n *schema.Node) bool {
	if n == nil {
		return true
	}
	if t.effectiveFormat(n) != "" && !n.IntOrString {
		return false // strings, and lists
	}
	k, _ := typeKinds(n)
	return k&logic.Number != 0
}

// keyDefaults names the defaults of list-map keys, as [logic.UniqueBy] has them: they decide which items are equal.
func keyDefaults(n *schema.Node, keys []string) string {
	var out []string
	for _, k := range keys {
		if c := n.Items.Property(k); c != nil && c.HasDefault {
			out = append(out, k+"="+hex.EncodeToString(schema.AppendValue(nil, schema.WithDefaults(c, c.Default))))
		}
	}
	return strings.Join(out, "\x00")
}
