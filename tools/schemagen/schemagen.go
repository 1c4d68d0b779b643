// Package schemagen makes random structural schemas, changes to them, and objects for them, for tests and benchmarks that
// attack the prover. The same source of randomness gives the same results.
package schemagen

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type props = apiextensionsv1.JSONSchemaProps

// Gen makes things at random.
// Two generators with one seed draw the same, as long as the code of this package stays as it is: a new
// case moves all draws after it. So seeds are for finding a failure again, and not for tests that name
// one.
type Gen struct {
	*rand.Rand
	// Rules lets schemas have validation rules.
	Rules bool
}

// New returns a generator for the seed.
// The second word of the seed only keeps the two from being equal.
func New(seed uint64) *Gen {
	return &Gen{Rand: rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15))}
}

// The names and words are few, so that schemas drawn one after the other speak of the same fields and
// values.
var (
	names    = []string{"a", "b", "c", "size", "name", "mode", "x-y", "items"}
	words    = []string{"", "a", "b", "abc", "A", "on", "off", "auto", "10", "1Gi", "a-b", "x.y", "é", "10.0.0.1", "2006-01-02", "1h"}
	patterns = []string{"^a", "^[a-z]+$", "^[a-z]*$", "b", "^(on|off)$", "^(on|off|auto)$", "^[0-9]+$", "^[0-9]+(Gi|Mi)?$", "^.{1,3}$", `^\S*$`}
	formats  = []string{"ipv4", "date", "duration", "uuid", "made-up", "date-time", "hostname"}
)

func pickOne[T any](g *Gen, from []T) T { return from[g.IntN(len(from))] }

// chance is true in so many of a hundred draws. It draws once, whatever the answer.
func (g *Gen) chance(percent int) bool { return g.IntN(100) < percent }

// Schema returns the schema of a resource: an object with spec and perhaps status.
// A status comes to one schema of five, and spec is required in some, as in real CRDs.
func (g *Gen) Schema() *props {
	root := &props{Type: "object", Properties: map[string]props{"spec": *g.drawObject(3)}}
	if g.chance(20) {
		root.Properties["status"] = *g.drawObject(2)
	}
	if g.chance(15) {
		root.Required = []string{"spec"}
	}
	return root
}

// drawNode returns a schema of any type.
// At depth 0 only scalars are drawn, so that schemas end. Objects come most often, because they have the
// most keywords.
func (g *Gen) drawNode(depth int) *props {
	n := g.IntN(10)
	if depth <= 0 {
		n = g.IntN(6)
	}
	var p *props
	switch n {
	case 0, 1:
		p = g.drawString()
	case 2:
		p = g.drawNumber("integer")
	case 3:
		p = g.drawNumber("number")
	case 4:
		p = &props{Type: "boolean"}
		if g.chance(10) {
			p.Enum = []apiextensionsv1.JSON{rawJSON(true)}
		}
	case 5:
		p = &props{XIntOrString: true, AnyOf: []props{{Type: "integer"}, {Type: "string"}}}
		if g.chance(30) {
			p.Pattern = pickOne(g, patterns)
		}
	case 6:
		p = g.drawArray(depth)
	case 7:
		p = g.mapOf(depth)
	default:
		p = g.drawObject(depth)
	}
	p.Nullable = g.chance(8)
	return p
}

// drawString draws a string with at most two of enum, pattern, format and lengths. More of them would
// mostly accept nothing.
func (g *Gen) drawString() *props {
	p := &props{Type: "string"}
	switch g.IntN(7) {
	// Two draws of seven leave the string without any keyword.
	case 0:
		p.Enum = g.drawEnum()
	case 1:
		p.Pattern = pickOne(g, patterns)
	case 2:
		p.Format = pickOne(g, formats)
	case 3:
		p.MinLength = new(int64(g.IntN(3)))
		p.MaxLength = new(*p.MinLength + int64(g.IntN(4)))
	case 4:
		p.MaxLength = new(int64(g.IntN(5)))
		p.Pattern = pickOne(g, patterns)
	}
	return p
}

// drawEnum draws some of five words, at least one. The empty string is among them, because clients in Go
// send it.
func (g *Gen) drawEnum() []apiextensionsv1.JSON {
	var out []apiextensionsv1.JSON
	for _, w := range []string{"on", "off", "auto", "a", ""} {
		if g.chance(55) {
			out = append(out, rawJSON(w))
		}
	}
	if len(out) == 0 {
		out = append(out, rawJSON("on"))
	}
	return out
}

// drawNumber draws an integer or a number with bounds, which may contradict each other: then the schema
// accepts nothing, and everything is contained in another one.
func (g *Gen) drawNumber(kind string) *props {
	p := &props{Type: kind}
	if g.chance(40) {
		p.Minimum = new(float64(g.IntN(7) - 3))
		p.ExclusiveMinimum = g.chance(30)
	}
	if g.chance(40) {
		p.Maximum = new(float64(g.IntN(12) - 1))
		p.ExclusiveMaximum = g.chance(30)
	}
	if g.chance(12) {
		p.MultipleOf = new(float64(1 + g.IntN(4)))
	}
	if g.chance(8) {
		p.Enum = []apiextensionsv1.JSON{rawJSON(1), rawJSON(2), rawJSON(g.IntN(5))}
	}
	if kind == "integer" && g.chance(20) {
		p.Format = pickOne(g, []string{"int32", "int64"})
	}
	return p
}

// drawArray draws a list. Some lists of scalars are sets. Some lists of objects are maps, keyed by their
// first scalar, which the API server wants to be required or to have a default, and not to be null.
func (g *Gen) drawArray(depth int) *props {
	p := &props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: g.drawNode(depth - 1)}}
	if g.chance(30) {
		p.MaxItems = new(int64(g.IntN(4)))
	}
	if g.chance(30) {
		p.MinItems = new(int64(g.IntN(3)))
	}
	item := p.Items.Schema
	switch {
	case g.chance(20) && (item.Type == "string" || item.Type == "integer"):
		p.XListType = new("set")
	case g.chance(40) && item.Type == "object" && len(item.Properties) > 0:
		for _, name := range slices.Sorted(maps.Keys(item.Properties)) {
			c := item.Properties[name]
			if c.Type == "string" || c.Type == "integer" {
				p.XListType = new("map")
				p.XListMapKeys = []string{name}
				c.Nullable = false
				item.Properties[name] = c
				if c.Default == nil && !slices.Contains(item.Required, name) {
					item.Required = append(item.Required, name)
				}
				item.Nullable = false
				break
			}
		}
	}
	return p
}

// mapOf draws a map with values of any type, sometimes with a number of keys.
func (g *Gen) mapOf(depth int) *props {
	p := &props{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: g.drawNode(depth - 1)}}
	if g.chance(25) {
		p.MaxProperties = new(int64(g.IntN(4)))
	}
	if g.chance(25) {
		p.MinProperties = new(int64(g.IntN(3)))
	}
	return p
}

// drawObject draws up to four properties, of which a name that comes twice counts once. Required names
// are always declared ones.
func (g *Gen) drawObject(depth int) *props {
	p := &props{Type: "object", Properties: map[string]props{}}
	for range 1 + g.IntN(4) {
		name := pickOne(g, names)
		c := g.drawNode(depth - 1)
		if g.chance(15) {
			if d, ok := g.validDefault(c); ok {
				c.Default = &d
			}
		}
		p.Properties[name] = *c
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		if g.chance(20) {
			p.Required = append(p.Required, name)
		}
	}
	if g.chance(10) {
		p.XPreserveUnknownFields = new(true)
	}
	if g.chance(6) {
		p.MinProperties = new(int64(g.IntN(3)))
	}
	if g.chance(6) {
		p.MaxProperties = new(int64(1 + g.IntN(3)))
	}
	if g.chance(20) {
		g.addJunctor(p)
	}
	if g.Rules && g.chance(25) {
		p.XValidations = append(p.XValidations, apiextensionsv1.ValidationRule{Rule: g.drawRule(p), Message: "no"})
	}
	return p
}

// addJunctor adds anyOf, oneOf, allOf or not over the properties.
// The branches speak of properties that the object declares, as a structural schema demands.
func (g *Gen) addJunctor(p *props) {
	branch := func() props {
		name := pickOne(g, slices.Sorted(maps.Keys(p.Properties)))
		if g.chance(60) {
			return props{Required: []string{name}}
		}
		c := p.Properties[name]
		var sub props
		switch c.Type {
		case "string":
			sub = props{MaxLength: new(int64(g.IntN(4)))}
			if g.chance(50) {
				sub = props{Enum: g.drawEnum()}
			}
		case "integer", "number":
			sub = props{Minimum: new(float64(g.IntN(5)))}
		default:
			return props{Required: []string{name}}
		}
		return props{Properties: map[string]props{name: sub}}
	}
	switch g.IntN(4) {
	case 0:
		p.AnyOf = []props{branch(), branch()}
	case 1:
		p.OneOf = []props{branch(), branch()}
	case 2:
		p.AllOf = []props{branch()}
	case 3:
		b := branch()
		p.Not = &b
	}
}

// drawRule returns a validation rule over the scalar properties of p.
// Nullable properties and those with a format are left out: the first need a check for null, and the
// second are no strings to CEL.
func (g *Gen) drawRule(p *props) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		c := p.Properties[name]
		if name == "x-y" || c.Nullable {
			continue
		}
		field := "self." + name
		switch c.Type {
		case "string":
			if c.Format != "" {
				continue
			}
			parts = append(parts,
				fmt.Sprintf("!has(%s) || size(%s) <= %d", field, field, g.IntN(5)),
				fmt.Sprintf("!has(%s) || %s != %q", field, field, pickOne(g, words)),
				fmt.Sprintf("!has(%s) || %s.startsWith('a')", field, field),
				fmt.Sprintf("has(%s) && %s in ['on', 'off']", field, field))
		case "integer":
			parts = append(parts, fmt.Sprintf("!has(%s) || %s %s %d", field, field, pickOne(g, []string{"<", "<=", ">", ">=", "!="}), g.IntN(9)-2))
		case "number":
			parts = append(parts, fmt.Sprintf("!has(%s) || %s %s %d.5", field, field, pickOne(g, []string{"<", "<=", ">", ">="}), g.IntN(9)-2))
		case "boolean":
			parts = append(parts, fmt.Sprintf("!has(%s) || %s", field, field))
		case "array":
			parts = append(parts, fmt.Sprintf("!has(%s) || size(%s) < %d", field, field, 1+g.IntN(3)))
		case "object":
			parts = append(parts, fmt.Sprintf("has(%s)", field), fmt.Sprintf("!has(%s)", field))
		}
	}
	if len(parts) == 0 {
		return "true"
	}
	out := "(" + pickOne(g, parts) + ")"
	for g.chance(40) {
		out += pickOne(g, []string{" && ", " || "}) + "(" + pickOne(g, parts) + ")"
	}
	if g.chance(10) {
		out = "!" + "(" + out + ")"
	}
	return out
}

// rawJSON writes a literal. What is no JSON becomes null.
func rawJSON(v any) apiextensionsv1.JSON {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte("null")
	}
	return apiextensionsv1.JSON{Raw: b}
}
