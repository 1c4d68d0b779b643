package schemagen

// Which costs has nobody thought of? A random schema gets a few things that are many or huge, in combinations
// that no list has.

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Inflate makes one to three things in a schema many or huge, each at a random place: properties, required names, branches, enum values,
// rules, bounds, patterns, levels, defaults. n is how many, or how huge, within two orders of magnitude. Unlike [Hostile] it mixes what
// costs: it is for searching costs that nobody has thought of.
// The schema may become one that the API server refuses. A comparison must end within its budget for
// these too, because files are compared before anybody installs them.
func (g *Gen) Inflate(root *props, n int) *props {
	out := root.DeepCopy()
	for range 1 + g.IntN(3) {
		g.inflateBelow(out, n, 0)
	}
	return out
}

// inflateBelow walks down through properties and items at random. It does not enter maps, whose values
// are inflated as lists are.
func (g *Gen) inflateBelow(p *props, n, depth int) {
	if keys := slices.Sorted(maps.Keys(p.Properties)); len(keys) > 0 && (depth == 0 || g.chance(60)) {
		k := pickOne(g, keys)
		c := p.Properties[k]
		g.inflateBelow(&c, n, depth+1)
		p.Properties[k] = c
		return
	}
	if p.Items != nil && p.Items.Schema != nil && g.chance(60) {
		g.inflateBelow(p.Items.Schema, n, depth+1)
		return
	}
	g.inflateOne(p, n)
}

// inflateOne makes one thing of p many or huge.
// Booleans and values of any type can only have many branches.
func (g *Gen) inflateOne(p *props, n int) {
	switch p.Type {
	case "object":
		g.inflateObject(p, n)
	case "array":
		g.inflateList(p, n)
	case "string":
		g.inflateString(p, n)
	case "integer", "number":
		p.Enum = numbersBelow(n)
	default:
		g.inflateBranches(p, n)
	}
}

// inflateObject makes one of nine things of an object many or huge. A map has no properties, so only its
// number of keys can grow.
func (g *Gen) inflateObject(p *props, n int) {
	if p.AdditionalProperties != nil {
		p.MinProperties, p.MaxProperties = new(g.hugeBound(n)), nil
		return
	}
	if p.Properties == nil {
		p.Properties = map[string]props{}
	}
	many := func(each func(i int) *props) {
		for i := range n {
			p.Properties["p"+strconv.Itoa(i)] = *each(i)
		}
	}
	keys := slices.Sorted(maps.Keys(p.Properties))
	switch g.IntN(9) {
	case 0: // the same property again and again
		one := props{Type: "string"}
		if len(keys) > 0 {
			one = p.Properties[pickOne(g, keys)]
		}
		many(func(int) *props { return one.DeepCopy() })
	case 1:
		many(func(int) *props { return g.drawNode(1) })
	case 2: // names that are there, or are not
		if g.chance(50) {
			many(func(int) *props { return &props{Type: "string", MinLength: new(g.hugeBound(n))} })
		}
		for i := range n {
			p.Required = append(p.Required, "p"+strconv.Itoa(i))
		}
		if g.chance(50) {
			p.XPreserveUnknownFields = new(true)
		}
	case 3:
		g.inflateBranches(p, n)
	case 4: // many rules
		for i := range n {
			p.XValidations = append(p.XValidations, apiextensionsv1.ValidationRule{Rule: g.anyRule(p, i)})
		}
	case 5: // one long rule
		texts := make([]string, n)
		for i := range texts {
			texts[i] = g.anyRule(p, i)
		}
		text := strings.Join(texts, pickOne(g, []string{" && ", " || "}))
		if g.chance(30) {
			text = "(" + text + ") ? true : " + texts[0]
		}
		p.XValidations = append(p.XValidations, apiextensionsv1.ValidationRule{Rule: text})
	case 6: // many defaults below
		many(func(i int) *props { return &props{Type: "string", Default: new(rawJSON("v" + strconv.Itoa(i)))} })
		if g.chance(50) {
			p.Default = new(rawJSON(map[string]any{}))
		}
	case 7: // many levels
		inner := *p.DeepCopy()
		for range min(n, 60) {
			inner = props{Type: "object", Properties: map[string]props{"d": inner}}
		}
		p.Properties["deep"] = inner
	default:
		p.MinProperties = new(g.hugeBound(n))
		p.XPreserveUnknownFields = new(true)
	}
}

// inflateList makes a bound, the keys or the default of a list huge. A list without a bound under a rule
// with two loops is what the API server estimates as the most costly.
func (g *Gen) inflateList(p *props, n int) {
	switch g.IntN(4) {
	case 0:
		p.MinItems, p.MaxItems = new(g.hugeBound(n)), nil
	case 1:
		p.MaxItems, p.UniqueItems = new(g.hugeBound(n)), false
		p.XValidations = append(p.XValidations, apiextensionsv1.ValidationRule{Rule: "self.all(x, self.exists_one(y, x == y))"})
	case 2:
		if item := p.Items; item != nil && item.Schema != nil && item.Schema.Type == "object" {
			p.XListType, p.XListMapKeys = new("map"), nil
			for i := range n {
				name := "p" + strconv.Itoa(i)
				if item.Schema.Properties == nil {
					item.Schema.Properties = map[string]props{}
				}
				item.Schema.Properties[name] = props{Type: "string"}
				item.Schema.Required = append(item.Schema.Required, name)
				p.XListMapKeys = append(p.XListMapKeys, name)
			}
			return
		}
		p.MinItems = new(g.hugeBound(n))
	default:
		items := make([]any, n)
		for i := range items {
			items[i] = "v" + strconv.Itoa(i)
		}
		p.Default = new(rawJSON(items))
	}
}

// inflateString makes the enum, a bound or the pattern of a string huge. Counted repetitions and
// alternatives are what makes automata large.
func (g *Gen) inflateString(p *props, n int) {
	switch g.IntN(6) {
	case 0:
		p.Enum = nil
		for i := range n {
			p.Enum = append(p.Enum, rawJSON("v"+strconv.Itoa(i)))
		}
	case 1:
		p.MinLength = new(g.hugeBound(n))
	case 2:
		p.MaxLength = new(g.hugeBound(n))
	case 3:
		p.Pattern = fmt.Sprintf("^([a-z]%s){0,%d}$", pickOne(g, []string{"", "?", "+", "[0-9]*"}), min(n, 900))
	case 4:
		words := make([]string, n)
		for i := range words {
			words[i] = "w" + strconv.Itoa(i*7919%n)
		}
		p.Pattern = "^(" + strings.Join(words, "|") + ")" + pickOne(g, []string{"", "*", ".*", "{1,5}"}) + "$"
	default:
		g.inflateBranches(p, n)
	}
}

// inflateBranches gives p many branches of one junctor.
// The branches exclude each other or overlap, by the type.
func (g *Gen) inflateBranches(p *props, n int) {
	branches := make([]props, n)
	for i := range branches {
		switch p.Type {
		case "object":
			branches[i] = props{Required: []string{"p" + strconv.Itoa(i%97)}}
		case "string":
			branches[i] = props{Pattern: "^v" + strconv.Itoa(i)}
		default:
			branches[i] = props{Enum: numbersBelow(1 + i%3)}
		}
	}
	switch g.IntN(3) {
	case 0:
		p.AllOf = branches
	case 1:
		p.AnyOf = branches
	default:
		p.OneOf = branches
	}
}

// anyRule returns a rule about p, the i-th of many.
// Names that CEL cannot write as they are get a rule that is always true.
func (g *Gen) anyRule(p *props, i int) string {
	keys := slices.Sorted(maps.Keys(p.Properties))
	if len(keys) == 0 {
		return "self.size() != " + strconv.Itoa(i)
	}
	k := pickOne(g, keys)
	if strings.Contains(k, "-") || k == "in" {
		return "true"
	}
	has := "!has(self." + k + ")"
	switch p.Properties[k].Type {
	case "string":
		text := "'v" + strconv.Itoa(i) + "'"
		if g.chance(30) {
			return has + " || self." + k + " != " + text
		}
		return has + " || self." + k + "." + pickOne(g, []string{"startsWith", "matches", "contains"}) + "(" + text + ")"
	case "integer":
		return has + " || self." + k + " > " + strconv.Itoa(i)
	case "array":
		return has + " || self." + k + ".size() != " + strconv.Itoa(i)
	}
	return pickOne(g, []string{has, "has(self." + k + ")", has + " || self." + k + " == self." + k})
}

// hugeBound returns a bound of about n, or about the square of it.
func (g *Gen) hugeBound(n int) int64 {
	if g.chance(50) {
		return int64(n)
	}
	return int64(n) * int64(n)
}

// numbersBelow is an enum of the integers from 0 to n-1.
func numbersBelow(n int) []apiextensionsv1.JSON {
	out := make([]apiextensionsv1.JSON, n)
	for i := range out {
		out[i] = rawJSON(i)
	}
	return out
}
