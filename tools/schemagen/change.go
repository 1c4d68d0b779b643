package schemagen

// How do schemas change in upgrades? One to three keywords at random places, each in a way that authors change
// it.

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Change returns a copy of the schema with one to three changes, of the kinds that real upgrades make.
// The result is structural mostly, but the API server may refuse it, for example for a default that the
// changed schema forbids. Callers who need a valid CRD ask the validation and draw again.
func (g *Gen) Change(root *props) *props {
	out := root.DeepCopy()
	for range 1 + g.IntN(3) {
		g.changeBelow(out, 0)
	}
	return out
}

// changeBelow walks down at random and changes the schema at which it stops. The root itself is never
// changed: it stays an object with a spec.
func (g *Gen) changeBelow(p *props, depth int) {
	keys := slices.Sorted(maps.Keys(p.Properties))
	// Three of five times the walk goes on, so that changes lie at all depths.
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

// changeNode makes one change. Some draws change nothing, because the keyword does not go with the type;
// they leave a schema that is compared with itself.
func (g *Gen) changeNode(p *props) {
	keys := slices.Sorted(maps.Keys(p.Properties))
	switch g.IntN(22) {
	// Another type in place of this one, with keywords of its own.
	case 0:
		*p = *g.drawNode(1)
	case 1:
		p.Nullable = !p.Nullable
	// A property is gone, so stored values of it are pruned.
	case 2:
		if len(keys) > 0 {
			delete(p.Properties, pickOne(g, keys))
		}
	// A property is new. Unknown fields of that name may be stored below a schema that keeps them.
	case 3:
		if p.Type == "object" && p.AdditionalProperties == nil {
			if p.Properties == nil {
				p.Properties = map[string]props{}
			}
			p.Properties[pickOne(g, names)] = *g.drawNode(1)
		}
	// A property becomes required.
	case 4:
		if len(keys) > 0 {
			p.Required = append(p.Required, pickOne(g, keys))
		}
	case 5:
		p.Required = nil
	// A property gets a default, loses it or has another one.
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
	// Unknown fields are no longer kept.
	case 7:
		p.XPreserveUnknownFields = nil
	case 8:
		if p.Type == "object" {
			p.XPreserveUnknownFields = new(true)
			if len(keys) > 0 && g.chance(50) { // what it was stays as an unknown field
				delete(p.Properties, pickOne(g, keys))
			}
		}
	// The junctors go, or others take their place. A new schema may refuse what the old one accepts in
	// either case.
	case 9:
		if p.Type == "object" && len(keys) > 0 {
			p.AnyOf, p.OneOf, p.AllOf, p.Not = nil, nil, nil, nil
			if g.chance(60) {
				g.addJunctor(p)
			}
		}
	// The enum goes, or is another one.
	case 10:
		if p.Type == "string" {
			p.Enum = nil
			if g.chance(60) {
				p.Enum = g.drawEnum()
			}
		}
	// The pattern goes, or is another one. It comes twice as often as others, because patterns are
	// compared by automata.
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
	// Other bounds, and sometimes other divisors, enums or formats. The type stays.
	case 14, 15:
		if p.Type == "integer" || p.Type == "number" {
			q := g.drawNumber(p.Type)
			p.Minimum, p.Maximum, p.ExclusiveMinimum, p.ExclusiveMaximum = q.Minimum, q.Maximum, q.ExclusiveMinimum, q.ExclusiveMaximum
			if g.chance(30) {
				p.MultipleOf, p.Enum, p.Format = q.MultipleOf, q.Enum, q.Format
			}
		}
	// An integer is a number, but not each number is an integer. Formats of the one mean nothing for the
	// other.
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
	// The length of a list has other bounds. A bound of zero leaves the empty list alone.
	case 17:
		if p.Type == "array" {
			p.MaxItems, p.MinItems = nil, nil
			if g.chance(70) {
				p.MaxItems = new(int64(g.IntN(4)))
			}
		}
	// A list becomes a set or an atomic list. Sets need scalars as items.
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
	// An object may have fewer or more properties.
	case 20:
		if p.Type == "object" {
			p.MinProperties, p.MaxProperties = nil, nil
			if g.chance(60) {
				p.MaxProperties = new(int64(g.IntN(4)))
			}
		}
	// Other rules, or none. Rules over properties that another change removes do not compile, and the
	// API server refuses such a schema.
	case 21:
		if p.Type == "object" && len(keys) > 0 {
			p.XValidations = nil
			if g.Rules && g.chance(70) {
				p.XValidations = []apiextensionsv1.ValidationRule{{Rule: g.drawRule(p), Message: "no"}}
			}
		}
	}
}
