package compat

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
)

// settled returns the version as the schema of what it leaves behind: defaults are filled in, its own and, where the object
// is read by another version, those of the reader.
func (c *comparison) settled(p, reader *part) *part {
	if reader == p || reader == nil {
		reader = p
	}
	key := pair{p, reader}
	if s, ok := c.settledParts[key]; ok {
		return s
	}
	s := p
	if changed, ok := settle(p.props, reader.props, 0); ok {
		s = &part{crdVersion: p.crdVersion, index: p.index, isOld: p.isOld, props: changed}
	}
	if c.settledParts == nil {
		c.settledParts = map[pair]*part{}
	}
	c.settledParts[key] = s
	return s
}

// settle makes what has a default required instead. It tells whether anything changed; parts that do not are shared.
func settle(p, reader *props, depth int) (*props, bool) {
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
			twin, shared := below.Properties[name]
			var other *props
			if shared {
				other = &twin
			}
			sub, subChanged := settle(&child, other, depth+1)
			own := *sub
			if fillsIn(&child) || shared && fillsIn(&twin) {
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
	if p.Items != nil && p.Items.Schema != nil {
		var other *props
		if below.Items != nil {
			other = below.Items.Schema
		}
		if sub, ok := settle(p.Items.Schema, other, depth+1); ok {
			out.Items, changed = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: sub}, true
		}
	}
	if ap := p.AdditionalProperties; ap != nil && ap.Schema != nil {
		var other *props
		if below.AdditionalProperties != nil {
			other = below.AdditionalProperties.Schema
		}
		if sub, ok := settle(ap.Schema, other, depth+1); ok {
			out.AdditionalProperties, changed = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: ap.Allows, Schema: sub}, true
		}
	}
	if !changed {
		return p, false
	}
	return &out, true
}

// demand returns p with each property required that the reader fills in and p does not: what it refuses lacks one of them. It
// tells whether there is any.
func demand(p, reader *props, depth int) (*props, bool) {
	if p == nil || reader == nil || depth > schema.MaxDepth {
		return p, false
	}
	out, changed := *p, false
	out.Required = slices.Clone(p.Required)
	out.Properties = maps.Clone(p.Properties)
	for _, name := range slices.Sorted(maps.Keys(reader.Properties)) {
		twin, child := reader.Properties[name], p.Properties[name]
		if fillsIn(&twin) && !fillsIn(&child) && !slices.Contains(p.Required, name) {
			out.Required, changed = append(out.Required, name), true
		}
		if _, declared := p.Properties[name]; !declared {
			continue
		}
		if sub, ok := demand(&child, &twin, depth+1); ok {
			out.Properties[name], changed = *sub, true
		}
	}
	if p.Items != nil && reader.Items != nil {
		if sub, ok := demand(p.Items.Schema, reader.Items.Schema, depth+1); ok {
			out.Items, changed = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: sub}, true
		}
	}
	if ap, other := p.AdditionalProperties, reader.AdditionalProperties; ap != nil && other != nil {
		if sub, ok := demand(ap.Schema, other.Schema, depth+1); ok {
			out.AdditionalProperties, changed = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: ap.Allows, Schema: sub}, true
		}
	}
	return &out, changed
}

// fillsIn tells whether the API server fills in a default: null is none
// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting, Default).
func fillsIn(p *props) bool {
	return p.Default != nil && string(p.Default.Raw) != "null" && len(p.Default.Raw) > 0
}
