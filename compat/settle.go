package compat

// What may be in storage, as a schema? It is what a version leaves behind: pruned, with defaults filled in, its own and those of the
// version that reads. For example, if spec.mode has the default A, stored objects that were read once have spec.mode.

import (
	"context"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
	"sluice.dev/schema/contain"
)

// withDefaultsAsRequired returns a version whose schema describes the objects after their defaults are filled in. A field with a default is
// required there. If another version reads the objects, the defaults of the reader count, too.
func (c *comparison) withDefaultsAsRequired(p, reader *part) *part {
	if reader == p || reader == nil {
		reader = p
	}
	key := pair{p, reader}
	if s, ok := c.settledParts[key]; ok {
		return s
	}
	s := p
	if changed, ok := requireDefaulted(p.props, reader.props, 0); ok {
		s = p.withSchema(changed)
	}
	if c.settledParts == nil {
		c.settledParts = map[pair]*part{}
	}
	c.settledParts[key] = s
	return s
}

// requireDefaulted makes what has a default required instead. It reports whether anything changed; parts that do not are shared.
func requireDefaulted(p, reader *props, depth int) (*props, bool) {
	if p == nil || depth > schema.MaxDepth {
		return p, false
	}
	var below props
	if reader != nil {
		below = *reader
	}
	out, changed := *p, false
	if len(p.Properties) > 0 {
		out.Properties = make(map[string]props, len(p.Properties))
		out.Required = slices.Clone(p.Required)
		for name, child := range p.Properties {
			twin, filled := twinOf(&below, name)
			sub, subChanged := requireDefaulted(&child, twin, depth+1)
			own := *sub
			if fillsIn(&child) || filled {
				own.Default, subChanged = nil, true
				if !slices.Contains(out.Required, name) {
					out.Required = append(out.Required, name)
				}
			}
			out.Properties[name] = own
			changed = changed || subChanged
		}
		slices.Sort(out.Required[len(p.Required):])
	}
	if items := itemsOf(p); items != nil {
		if sub, ok := requireDefaulted(items, itemsOf(&below), depth+1); ok {
			out.Items, changed = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: sub}, true
		}
	}
	if values := extraOf(p); values != nil {
		if sub, ok := requireDefaulted(values, extraOf(&below), depth+1); ok {
			out.AdditionalProperties, changed = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: p.AdditionalProperties.Allows, Schema: sub}, true
		}
	}
	if !changed {
		return p, false
	}
	return &out, true
}

// asStored are the versions, made of p, whose objects together are what is stored of p and what reader fills in. What p says of a field may
// refuse what is filled in after p has taken the object, so the objects before that belong to them.
func (c *comparison) asStored(p, reader *part) []*part {
	filled := c.withDefaultsAsRequired(p, reader)
	if reader == p || reader == nil || !fillsMore(p.props, reader.props, 0) {
		return []*part{filled}
	}
	return []*part{filled, c.withDefaultsAsRequired(p, p)}
}

// storedGaps are the gaps between what is stored of version p and read by reader, and version to.
func (c *comparison) storedGaps(ctx context.Context, p, reader, to *part) []contain.Gap {
	var out []contain.Gap
	known := told{}
	for i, stored := range c.asStored(p, reader) {
		for _, g := range c.decidePair(ctx, pair{stored, to}) {
			sure := i == 0 || g.Harm != contain.Refused || g.Witness == nil
			if !known.hasGap(&g) && (sure || c.canTravel(ctx, pair{p, to}, &g)) {
				known.addGaps(g)
				out = append(out, g)
			}
		}
	}
	return out
}

// travelsOtherwise looks for another object for a refusal whose witness does not make the journey: one without the fields that are
// pruned on the way, and with the defaults that are filled in. It reports whether there may be one.
func (c *comparison) travelsOtherwise(ctx context.Context, x *crossing) bool {
	home := c.readingVersion(x.from)
	key := pair{x.from, home}
	way, made := c.wayParts[key]
	if !made {
		on := onTheWay(x.from.props, home.props, true, 0)
		if s := c.storingVersion(x.from); s != nil {
			on = onTheWay(on, s.props, false, 0)
		}
		way = x.from.withSchema(on)
		if c.wayParts == nil {
			c.wayParts = map[pair]*part{}
		}
		c.wayParts[key] = way
	}
	for _, g := range c.decidePair(ctx, pair{way, x.to}) {
		same := g.Keyword == x.Keyword && g.Detail == x.Detail && g.Harm == x.Harm && len(g.Path) == len(x.Path) && mayBeNested(g.Path, x.Path)
		if same && (g.Verdict == contain.Unknown && !g.OddAlone || g.Witness != nil && c.canTravel(ctx, x.pair, &g)) {
			x.Gap = g
			return true
		}
	}
	return false
}

// onTheWay returns p without the fields that q prunes and, if it reads, with those that q alone declares and fills in.
func onTheWay(p, q *props, reads bool, depth int) *props {
	if p == nil || q == nil || depth > schema.MaxDepth || keepsUnknownFields(q) {
		return p
	}
	out := *p
	out.AllOf, out.Required, out.Properties = slices.Clone(p.AllOf), slices.Clone(p.Required), map[string]props{}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		child := p.Properties[name]
		twin, _ := twinOf(q, name)
		if twin == nil && prunesUndeclared(q, name, depth) { // a rule may name it, so it stays declared
			out.AllOf = append(out.AllOf, props{Not: &props{Required: []string{name}}})
			out.Required = slices.DeleteFunc(out.Required, func(r string) bool { return r == name })
		}
		out.Properties[name] = *onTheWay(&child, twin, reads, depth+1)
	}
	own := len(out.Required)
	for name, twin := range q.Properties {
		if _, declared := p.Properties[name]; !declared && reads && len(p.Properties) > 0 && fillsIn(&twin) {
			twin.Enum, twin.Default = []apiextensionsv1.JSON{*twin.Default}, nil
			out.Properties[name], out.Required = twin, append(out.Required, name)
		}
	}
	slices.Sort(out.Required[own:])
	if items := itemsOf(p); items != nil {
		out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: onTheWay(items, itemsOf(q), reads, depth+1)}
	}
	if values, kept := extraOf(p), extraOf(q); values != nil && kept != nil {
		out.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: p.AdditionalProperties.Allows, Schema: onTheWay(values, kept, reads, depth+1)}
	} else if kept == nil && q.Type == "object" && (values != nil || keepsUnknownFields(p)) {
		nameKept(&out, q, values, reads, depth)
	}
	return &out
}

// nameKept declares the fields of q in p, which keeps unknown fields or has additionalProperties: q prunes all other fields.
func nameKept(p, q, values *props, reads bool, depth int) {
	if values == nil {
		values = &props{XPreserveUnknownFields: p.XPreserveUnknownFields}
	}
	p.AdditionalProperties, p.XPreserveUnknownFields = nil, nil
	for name, twin := range q.Properties {
		if _, declared := p.Properties[name]; !declared && prunesUndeclared(q, name, depth) {
			p.Properties[name] = *onTheWay(values, &twin, reads, depth+1)
		}
	}
}

// prunesUndeclared reports whether a field that p does not declare is pruned, if p keeps no unknown fields.
func prunesUndeclared(p *props, name string, depth int) bool {
	return depth > 0 && !p.XEmbeddedResource || !slices.Contains(ofEveryObject, name)
}

// fillsMore reports whether reader has a default that p lacks, for a field that p does not require.
func fillsMore(p, reader *props, depth int) bool {
	if p == nil || reader == nil || depth > schema.MaxDepth {
		return false
	}
	for name, child := range p.Properties {
		twin, filled := twinOf(reader, name)
		if filled && !fillsIn(&child) && !slices.Contains(p.Required, name) || fillsMore(&child, twin, depth+1) {
			return true
		}
	}
	return fillsMore(itemsOf(p), itemsOf(reader), depth+1) || fillsMore(extraOf(p), extraOf(reader), depth+1)
}

// twinOf returns what reader says of a property, and whether it fills it in; nil if it says nothing.
func twinOf(reader *props, name string) (twin *props, filled bool) {
	if p, declared := reader.Properties[name]; declared {
		return &p, fillsIn(&p)
	}
	return extraOf(reader), false
}

// itemsOf returns the schema of the items of a list, nil if there is none.
func itemsOf(p *props) *props {
	if p.Items == nil {
		return nil
	}
	return p.Items.Schema
}

// extraOf returns the schema of properties without a name, nil if there is none.
func extraOf(p *props) *props {
	if p.AdditionalProperties == nil {
		return nil
	}
	return p.AdditionalProperties.Schema
}

// withNamedUnknowns returns the version with names for the unknown fields that it keeps, and that some of the others declare and not all of
// them alike. Around such fields it takes only the type that the others have, so it takes no object that p does not.
func (c *comparison) withNamedUnknowns(p, to *part) *part {
	key := pair{p, to}
	if n, ok := c.namingParts[key]; ok {
		return n
	}
	var others []*props
	for _, q := range []*part{storageVersionOf(c.oldParts), findVersion(c.oldParts, to.Name), to} {
		if q != nil && q.props != nil {
			others = append(others, q.props)
		}
	}
	n := p
	if changed, ok := nameUnknown(p.props, others, 0); ok {
		n = p.withSchema(changed)
		n.onlyLost = true
	}
	if c.namingParts == nil {
		c.namingParts = map[pair]*part{}
	}
	c.namingParts[key] = n
	return n
}

// nameUnknown declares the fields that p keeps unknown and that the others do not have alike. It reports whether there are any.
func nameUnknown(p *props, others []*props, depth int) (*props, bool) {
	if p == nil || depth > schema.MaxDepth {
		return p, false
	}
	out, changed := *p, false
	below := fieldsOf(others)
	for _, name := range slices.Sorted(maps.Keys(below)) {
		child, declared := p.Properties[name]
		sub, ok := &child, false
		switch {
		case declared:
			sub, ok = nameUnknown(&child, below[name], depth+1)
		case keepsUnknownFields(p) && !alikeIn(below[name], len(others)) && prunesUndeclared(p, name, depth):
			sub, ok = shapeOf(below[name], depth+1), true
		}
		if ok && !changed {
			out.Properties, changed = maps.Clone(p.Properties), true
		}
		if ok && out.Properties == nil {
			out.Properties = map[string]props{}
		}
		if ok {
			out.Properties[name] = *sub
		}
	}
	items, values := childrenOf(others)
	if p.Items != nil {
		if sub, ok := nameUnknown(p.Items.Schema, items, depth+1); ok {
			out.Items, changed = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: sub}, true
		}
	}
	if ap := p.AdditionalProperties; ap != nil {
		if sub, ok := nameUnknown(ap.Schema, values, depth+1); ok {
			out.AdditionalProperties, changed = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: ap.Allows, Schema: sub}, true
		}
	}
	return &out, changed
}

func keepsUnknownFields(p *props) bool {
	return p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields
}

// shapeOf is the shape of values that the schemas, which are not alike, know more of: the objects, lists and maps around those
// fields that not all of them declare alike, which may have any value.
func shapeOf(schemas []*props, depth int) *props {
	yes := true
	anything := props{XPreserveUnknownFields: &yes, Nullable: true}
	items, values := childrenOf(schemas)
	below := fieldsOf(schemas)
	maps.DeleteFunc(below, func(_ string, of []*props) bool { return alikeIn(of, len(schemas)) })
	switch {
	case depth > schema.MaxDepth:
		return &anything
	case len(below) > 0:
		out := props{Type: "object", XPreserveUnknownFields: &yes, Properties: map[string]props{}}
		for name, of := range below {
			out.Properties[name] = *shapeOf(of, depth+1)
		}
		return &out
	case len(items) > 0 && !alikeIn(items, len(schemas)):
		return &props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: shapeOf(items, depth+1)}}
	case len(values) > 0 && !alikeIn(values, len(schemas)):
		return &props{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: shapeOf(values, depth+1)}}
	}
	return &anything
}

// ofEveryObject are the fields that every object has.
var ofEveryObject = []string{"apiVersion", "kind", "metadata"}

// fieldsOf are the fields that the schemas declare, each with what they say of it.
func fieldsOf(schemas []*props) map[string][]*props {
	out := map[string][]*props{}
	for _, s := range schemas {
		for name, child := range s.Properties {
			out[name] = append(out[name], &child)
		}
	}
	return out
}

// childrenOf are what the schemas say of items of lists and of values of maps.
func childrenOf(schemas []*props) (items, values []*props) {
	for _, s := range schemas {
		if s.Items != nil && s.Items.Schema != nil {
			items = append(items, s.Items.Schema)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			values = append(values, s.AdditionalProperties.Schema)
		}
	}
	return items, values
}

// alikeIn reports whether there are n schemas and all say the same.
func alikeIn(schemas []*props, n int) bool {
	return len(schemas) == n && !slices.ContainsFunc(schemas, func(s *props) bool { return !sameSchema(s, schemas[0]) })
}

// defaultsOf returns p with the defaults of the version that reads the object, where that has any.
func defaultsOf(p, reader *props, depth int) *props {
	if p == nil || reader == nil || depth > schema.MaxDepth {
		return p
	}
	out := *p
	out.Properties = map[string]props{}
	for name, child := range p.Properties {
		twin, filled := twinOf(reader, name)
		own := *defaultsOf(&child, twin, depth+1)
		if filled {
			own.Default = twin.Default
		}
		out.Properties[name] = own
	}
	for name, twin := range reader.Properties { // p keeps these without a declaration
		kept := extraOf(p)
		if kept == nil && keepsUnknownFields(p) {
			kept = &props{XPreserveUnknownFields: p.XPreserveUnknownFields}
		}
		if _, declared := p.Properties[name]; !declared && kept != nil {
			own := *defaultsOf(kept, &twin, depth+1)
			if fillsIn(&twin) {
				own.Default = twin.Default
			}
			out.Properties[name] = own
		}
	}
	if p.Items != nil && reader.Items != nil {
		out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: defaultsOf(p.Items.Schema, reader.Items.Schema, depth+1)}
	}
	if ap, other := p.AdditionalProperties, reader.AdditionalProperties; ap != nil && ap.Schema != nil && other != nil {
		out.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: ap.Allows, Schema: defaultsOf(ap.Schema, other.Schema, depth+1)}
	}
	return &out
}

// valuesOf returns what p says of values, as a branch of allOf can say it: no defaults, and nothing about pruning.
func valuesOf(p *props) props {
	return *schema.Rewrite(p, schema.InStructure, func(s *props) {
		s.Default, s.XPreserveUnknownFields, s.XEmbeddedResource, s.XListType, s.XListMapKeys, s.XMapType = nil, nil, false, nil, nil, nil
	})
}

// requireFilledByReader returns p with each property required that the reader fills in and p does not: what it refuses lacks one of them. It
// reports whether there is any.
func requireFilledByReader(p, reader *props, depth int) (*props, bool) {
	if p == nil || reader == nil || depth > schema.MaxDepth {
		return p, false
	}
	out, changed := *p, false
	out.Required = slices.Clone(p.Required)
	out.Properties = maps.Clone(p.Properties)
	if out.Properties == nil {
		out.Properties = map[string]props{}
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(reader.Properties)), maps.Keys(p.Properties))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		twin, filled := twinOf(reader, name)
		child, declared := p.Properties[name]
		if filled && !fillsIn(&child) && !slices.Contains(p.Required, name) {
			out.Required, changed = append(out.Required, name), true
		}
		below := &child
		if !declared {
			below = extraOf(p)
		}
		if sub, ok := requireFilledByReader(below, twin, depth+1); ok {
			out.Properties[name], changed = *sub, true
		}
	}
	if p.Items != nil && reader.Items != nil {
		if sub, ok := requireFilledByReader(p.Items.Schema, reader.Items.Schema, depth+1); ok {
			out.Items, changed = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: sub}, true
		}
	}
	if ap, other := p.AdditionalProperties, reader.AdditionalProperties; ap != nil && other != nil {
		if sub, ok := requireFilledByReader(ap.Schema, other.Schema, depth+1); ok {
			out.AdditionalProperties, changed = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: ap.Allows, Schema: sub}, true
		}
	}
	return &out, changed
}

// fillsIn reports whether the API server fills in a default: null is none
// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting, Default).
func fillsIn(p *props) bool {
	return p.Default != nil && string(p.Default.Raw) != "null" && len(p.Default.Raw) > 0
}
