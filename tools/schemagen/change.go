package schemagen

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Change returns a copy of the schema with one to three changes, of the kinds that real upgrades make.
func (g *Gen) Change(root *props) *props {
	out := root.DeepCopy()
	for range 1 + g.IntN(3) {
		g.changeBelow(out, 0)
	}
	return out
}

func (g *Gen) changeBelow(p *props, depth int) {
	keys := slices.Sorted(maps.Keys(p.Properties))
	if depth == 0 || g.chance(60) {
		switch {
		case len(keys) > 0 && (depth == 0 || g.chance(80)):
			k := pickOne(g, keys)
			c := p.Properties[k]
			g.changeBelow(&c, depth+1)
			p.Properties[k] = c
			return
		case p.Items != nil && p.Items.Schema != nil:
			g.changeBelow(p.Items.Schema, depth+1)
			return
		case p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil:
			g.changeBelow(p.AdditionalProperties.Schema, depth+1)
			return
		}
	}
	g.changeNode(p)
}

func (g *Gen) changeNode(p *props) {
	keys := slices.Sorted(maps.Keys(p.Properties))
	switch g.IntN(22) {
	case 0:
		*p = *g.drawNode(1)
	case 1:
		p.Nullable = !p.Nullable
	case 2:
		if len(keys) > 0 {
			delete(p.Properties, pickOne(g, keys))
		}
	case 3:
		if p.Type == "object" && p.AdditionalProperties == nil {
			if p.Properties == nil {
				p.Properties = map[string]props{}
			}
			p.Properties[pickOne(g, names)] = *g.drawNode(1)
		}
	case 4:
		if len(keys) > 0 {
			p.Required = append(p.Required, pickOne(g, keys))
		}
	case 5:
		p.Required = nil
	case 6:
		if len(keys) > 0 {
			k := pickOne(g, keys)
			c := p.Properties[k]
			c.Default = nil
			if d, ok := g.validDefault(&c); ok && g.chance(60) {
				c.Default = &d
			}
			p.Properties[k] = c
		}
	case 7:
		p.XPreserveUnknownFields = nil
	case 8:
		if p.Type == "object" {
			p.XPreserveUnknownFields = new(true)
			if len(keys) > 0 && g.chance(50) { // what it was stays as an unknown field
				delete(p.Properties, pickOne(g, keys))
			}
		}
	case 9:
		if p.Type == "object" && len(keys) > 0 {
			p.AnyOf, p.OneOf, p.AllOf, p.Not = nil, nil, nil, nil
			if g.chance(60) {
				g.addJunctor(p)
			}
		}
	case 10:
		if p.Type == "string" {
			p.Enum = nil
			if g.chance(60) {
				p.Enum = g.drawEnum()
			}
		}
	case 11, 12:
		if p.Type == "string" {
			p.Pattern = ""
			if g.chance(80) {
				p.Pattern = pickOne(g, patterns)
			}
		}
	case 13:
		if p.Type == "string" {
			p.Format = pickOne(g, formats)
		}
	case 14, 15:
		if p.Type == "integer" || p.Type == "number" {
			q := g.drawNumber(p.Type)
			p.Minimum, p.Maximum, p.ExclusiveMinimum, p.ExclusiveMaximum = q.Minimum, q.Maximum, q.ExclusiveMinimum, q.ExclusiveMaximum
			if g.chance(30) {
				p.MultipleOf, p.Enum, p.Format = q.MultipleOf, q.Enum, q.Format
			}
		}
	case 16:
		switch p.Type {
		case "integer":
			p.Type = "number"
			if p.Format != "" {
				p.Format = ""
			}
		case "number":
			p.Type = "integer"
		}
	case 17:
		if p.Type == "array" {
			p.MaxItems, p.MinItems = nil, nil
			if g.chance(70) {
				p.MaxItems = new(int64(g.IntN(4)))
			}
		}
	case 18:
		if p.Type == "array" {
			p.XListType, p.XListMapKeys = nil, nil
			if t := p.Items.Schema.Type; g.chance(70) && (t == "string" || t == "integer") {
				p.XListType = new("set")
			}
		}
	case 19:
		if p.Type == "string" {
			p.MaxLength = new(int64(g.IntN(6)))
		}
	case 20:
		if p.Type == "object" {
			p.MinProperties, p.MaxProperties = nil, nil
			if g.chance(60) {
				p.MaxProperties = new(int64(g.IntN(4)))
			}
		}
	case 21:
		if p.Type == "object" && len(keys) > 0 {
			p.XValidations = nil
			if g.Rules && g.chance(70) {
				p.XValidations = []apiextensionsv1.ValidationRule{{Rule: g.drawRule(p), Message: "no"}}
			}
		}
	}
}
