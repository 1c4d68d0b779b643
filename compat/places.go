package compat

// What do several schemas say of the same place? A place is a field, the items of a list or the values of a map. Other files walk and
// rewrite schemas side by side with the functions of this file. For example, spec.size in v1 and in v1beta1.

import (
	"iter"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
	"sluice.dev/schema/contain"
)

// ofEveryObject are the fields that every object has.
var ofEveryObject = []string{"apiVersion", "kind", "metadata"}

// childSchemas yields the places that p declares one step below itself.
// The order of properties is random, so callers that collect places sort them. Junctors and the metadata of embedded
// resources are no places.
func childSchemas(p *props) iter.Seq2[contain.Step, *props] {
	return func(yield func(contain.Step, *props) bool) {
		for name, child := range p.Properties {
			if !yield(contain.Step{Kind: contain.Field, Name: name}, &child) {
				return
			}
		}
		if items := itemsOf(p); items != nil && !yield(contain.Step{Kind: contain.AnyItem}, items) {
			return
		}
		if values := extraOf(p); values != nil {
			yield(contain.Step{Kind: contain.AnyKey}, values)
		}
	}
}

// anyBelow reports whether is is true of p or of a schema in it.
func anyBelow(p *props, is func(*props) bool) bool {
	for s := range schema.Walk(p, schema.InStructure) {
		if is(s) {
			return true
		}
	}
	return false
}

// schemaAt returns what p says of the values at a place one step below, whether it declares them or keeps them; nil if it drops them, and for
// a nil p.
func schemaAt(p *props, at contain.Step) *props {
	switch {
	case p == nil:
		return nil
	case at.Kind == contain.Field:
		return fieldOf(p, at.Name)
	case at.Kind == contain.AnyItem:
		return itemsOf(p)
	}
	return extraOf(p)
}

// schemasAt returns what schemas say of a place, without those that say nothing.
func schemasAt(schemas []*props, at contain.Step) []*props {
	var out []*props
	for _, s := range schemas {
		if sub := schemaAt(s, at); sub != nil {
			out = append(out, sub)
		}
	}
	return out
}

// fieldOf returns the schema of a field, nil if it is unknown and not kept.
// For a map it is the schema of the values. A kept unknown field has a schema that says nothing and keeps what is in
// it.
func fieldOf(p *props, name string) *props {
	if sub, ok := p.Properties[name]; ok {
		return &sub
	}
	if sub := extraOf(p); sub != nil {
		return sub
	}
	if keepsUnknownFields(p) {
		return &props{XPreserveUnknownFields: p.XPreserveUnknownFields}
	}
	return nil
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

// propsAt follows the path through declared schemas; nil if it leaves them.
// It differs from [schemaAt], which also answers for fields that are kept without a declaration.
func propsAt(p *props, path contain.Path) *props {
	for _, s := range path {
		switch {
		case p == nil:
			return nil
		case s.Kind == contain.Field:
			child, ok := p.Properties[s.Name]
			if !ok {
				return nil
			}
			p = &child
		default:
			p = schemaAt(p, s)
		}
	}
	return p
}

// rewriteChildren returns p with what below makes of each place that p declares. below returns its argument to leave a place as it is, and
// nil to take a field out. If all places stay, rewriteChildren returns p itself.
// It copies what changes and the way to it, and shares the rest with p. The result of below is not descended into, so
// that below decides about the depth.
func rewriteChildren(p *props, below func(child *props, at contain.Step) *props) *props {
	out := *p
	changed, cloned := false, false
	for at, child := range childSchemas(p) {
		sub := below(child, at)
		if sub == child {
			continue
		}
		changed = true
		switch at.Kind {
		case contain.Field:
			if !cloned {
				cloned, out.Properties = true, maps.Clone(p.Properties)
			}
			if sub == nil {
				delete(out.Properties, at.Name)
			} else {
				out.Properties[at.Name] = *sub
			}
		case contain.AnyItem:
			out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: sub}
		case contain.AnyKey:
			out.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: p.AdditionalProperties.Allows, Schema: sub}
		}
	}
	if !changed {
		return p
	}
	return &out
}

// withDefault returns p with another default, nil for none.
// The required fields around it stay, which matters to a caller that removes the default.
func withDefault(p *props, value *apiextensionsv1.JSON) *props {
	out := *p
	out.Default = value
	return &out
}

// withFieldSchema returns p with another schema for a field.
func withFieldSchema(p *props, name string, field *props) *props {
	out := *p
	out.Properties = maps.Clone(p.Properties)
	if out.Properties == nil {
		out.Properties = map[string]props{}
	}
	out.Properties[name] = *field
	return &out
}

// withRequired returns p with more required fields, in the order of their names.
func withRequired(p *props, names []string) *props {
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(p.Required, name) })
	slices.Sort(names)
	out := *p
	out.Required = append(slices.Clone(p.Required), names...)
	return &out
}

// fillsIn reports whether the API server fills in a default of p: null is none
// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting, Default). nil has none.
func fillsIn(p *props) bool {
	return p != nil && p.Default != nil && string(p.Default.Raw) != "null" && len(p.Default.Raw) > 0
}

// fillsNull reports whether the API server fills in a default of p where an item of a list or a value of a map is null.
func fillsNull(p *props) bool { return fillsIn(p) && !p.Nullable }

func keepsUnknownFields(p *props) bool {
	return p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields
}

// keepsUndeclared reports whether a field that p does not declare stays, if only as an empty object.
// additionalProperties: true keeps the field, and prunes what is in it
// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning).
func keepsUndeclared(p *props) bool {
	return keepsUnknownFields(p) || p.AdditionalProperties != nil && p.AdditionalProperties.Allows && p.AdditionalProperties.Schema == nil
}

// prunesUndeclared reports whether a field that p does not declare is pruned, if p keeps no unknown fields.
// apiVersion, kind and metadata stay at the root and in embedded resources, whatever the schema declares.
func prunesUndeclared(p *props, name string, depth int) bool {
	return depth > 0 && !p.XEmbeddedResource || !slices.Contains(ofEveryObject, name)
}

// fillsMore reports whether reader has a default that p lacks, for a field that p does not require, or for an item or a value that may be null.
// If it does not, reading by reader adds nothing to an object of p, and one question is enough.
func fillsMore(p, reader *props, depth int) bool {
	if p == nil || reader == nil || depth > schema.MaxDepth {
		return false
	}
	for at, child := range childSchemas(p) {
		twin := schemaAt(reader, at)
		filled := fillsIn(twin) && !fillsIn(child) && !slices.Contains(p.Required, at.Name)
		if at.Kind != contain.Field {
			filled = fillsNull(twin) && child.Nullable
		}
		if filled || fillsMore(child, twin, depth+1) {
			return true
		}
	}
	return false
}

// fillsAlone are the places, below at, of defaults of p for fields that some objects of stored lack, which reader has read and filled in. A nil
// stored says nothing of them.
// A client that wrote such an object finds the default in it only through p. The places lie in fields, items and
// values; an item or value has a default only for null.
func fillsAlone(p, stored, reader *props, at contain.Path) []contain.Path {
	if p == nil || len(at) > schema.MaxDepth {
		return nil
	}
	var out []contain.Path
	for step, child := range childSchemas(p) {
		here := append(slices.Clip(at), step)
		twin, filler := schemaAt(stored, step), schemaAt(reader, step)
		fills := fillsIn(child) && !fillsIn(filler) && (stored == nil || !slices.Contains(stored.Required, step.Name))
		if step.Kind != contain.Field {
			fills = fillsNull(child) && !fillsNull(filler) && (twin == nil || twin.Nullable)
		}
		if fills {
			out = append(out, here)
		}
		if step.Kind == contain.Field && stored != nil && twin == nil && !keepsUndeclared(stored) && !fillsIn(filler) {
			continue // the field was dropped, so no default is filled in below it
		}
		out = append(out, fillsAlone(child, twin, filler, here)...)
	}
	return out
}

// strangeFills are the places, below at, of defaults of reader for fields that p keeps and does not declare. Ratcheting never compares such fields.
// The version that reads fills them in, and p takes them over as unknown fields.
func strangeFills(p, reader *props, at contain.Path) []contain.Path {
	if p == nil || reader == nil || len(at) > schema.MaxDepth {
		return nil
	}
	var out []contain.Path
	for step, child := range childSchemas(reader) {
		here := append(slices.Clip(at), step)
		twin := propsAt(p, contain.Path{step})
		switch {
		case twin != nil:
			out = append(out, strangeFills(twin, child, here)...)
		case step.Kind == contain.Field && fillsIn(child) && keepsUndeclared(p):
			out = append(out, here)
		}
	}
	return out
}

// undeclaredPlaces are the places, below at, of fields that p declares and q keeps as unknown ones. Ratcheting never compares unknown fields.
// They are places that became declared: as an unknown field the value was never validated, and never compared by
// itself.
func undeclaredPlaces(p, q *props, at contain.Path) []contain.Path {
	if p == nil || q == nil || len(at) > schema.MaxDepth {
		return nil
	}
	var out []contain.Path
	for step, child := range childSchemas(p) {
		here := append(slices.Clip(at), step)
		twin := propsAt(q, contain.Path{step})
		switch {
		case twin != nil || step.Kind == contain.AnyItem:
			out = append(out, undeclaredPlaces(child, twin, here)...)
		case keepsUndeclared(q):
			out = append(out, here)
		}
	}
	return out
}
