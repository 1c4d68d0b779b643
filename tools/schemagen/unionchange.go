package schemagen

// How do unions and their rules change? Members come and go, rules are written in another way, and values near
// the border between accepted and refused are drawn.

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// ChangeUnion returns a copy of a schema that [Gen.Union] made, with one to three changes of the schema and of its rules.
// Some changes say the same in another way.
// Rules that mention a field which a change has removed are removed too, as an author would have to do.
func (g *Gen) ChangeUnion(root *props) *props {
	out := root.DeepCopy()
	for range 1 + g.IntN(3) {
		spec := out.Properties["spec"]
		g.changeUnion(&spec, "spec", 0, true)
		out.Properties["spec"] = spec
	}
	dropRules(out)
	return out
}

// dropRules removes the rules that mention fields which are gone.
// It goes down through items and properties, because a field may be mentioned by a rule of any object
// around it.
func dropRules(p *props) {
	p.XValidations = slices.DeleteFunc(p.XValidations, func(r apiextensionsv1.ValidationRule) bool { return !declaresFieldsOf(p, r.Rule) })
	if p.Items != nil {
		dropRules(p.Items.Schema)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		c := p.Properties[name]
		dropRules(&c)
		p.Properties[name] = c
	}
}

// changeUnion walks down at random, and changes a rule or the schema where it stops. name is that of the
// field, which says what rules may be about; old is false below lists, where rules about updates have no
// old value.
func (g *Gen) changeUnion(p *props, name string, depth int, old bool) {
	if p.Items != nil && g.chance(45) {
		g.changeUnion(p.Items.Schema, "item of "+name, depth+1, false)
		return
	}
	if keys := slices.Sorted(maps.Keys(p.Properties)); len(keys) > 0 && g.chance(40) {
		k := pickOne(g, keys)
		c := p.Properties[k]
		g.changeUnion(&c, k, depth+1, old)
		p.Properties[k] = c
		return
	}
	if n := len(p.XValidations); n > 0 && g.chance(35) {
		i := g.IntN(n)
		switch g.IntN(6) {
		case 0:
			p.XValidations = slices.Delete(p.XValidations, i, i+1)
		case 1:
			p.XValidations[i].Rule = g.newRule(p, name, old)
			p.XValidations = slices.DeleteFunc(p.XValidations, func(r apiextensionsv1.ValidationRule) bool { return r.Rule == "" || !declaresFieldsOf(p, r.Rule) })
		case 2:
			p.XValidations[i].Message = "no"
		default:
			p.XValidations[i].Rule = g.rewordRule(p.XValidations[i].Rule)
		}
		return
	}
	switch p.Type {
	// Another length, default or enum, or null becomes allowed or not.
	case "string":
		switch g.IntN(4) {
		case 0:
			p.MaxLength = new(int64(1 + g.IntN(3)))
		case 1:
			g.fillDefault(p, 70)
		case 2:
			p.Nullable = !p.Nullable
		default:
			if len(p.Enum) == 0 {
				p.Enum = g.someOf("x", "y", "zz")
				return
			}
			if g.chance(20) && name != "type" {
				p.Enum = nil
				return
			}
			p.Enum = g.someOf("A", "B", "C")
		}
	// Other bounds, another default, or null.
	case "integer", "boolean":
		q := g.unionField("n", 0, false)
		switch g.IntN(3) {
		case 0:
			g.fillDefault(p, 70)
		case 1:
			p.Nullable = !p.Nullable
		default:
			if p.Type == "integer" {
				p.Minimum, p.Maximum = q.Minimum, q.Maximum
			}
		}
	// Another length, list type or default, or one more rule.
	case "array":
		switch g.IntN(6) {
		case 0, 1:
			p.MaxItems = new(int64(1 + g.IntN(3)))
		case 2:
			g.setTopology(p, name)
		case 3:
			g.fillDefault(p, 70)
		default:
			g.addRule(p, g.newRule(p, name, old))
		}
	case "object":
		g.changeRecord(p, name, depth, old)
	}
}

// newRule draws a rule that goes with a field of that name; empty for fields that have no rules.
func (g *Gen) newRule(p *props, name string, old bool) string {
	switch {
	case p.Type == "array" && name == "l":
		return g.listRule(old)
	case name == "a":
		return g.memberRule(old)
	case name == "spec" || name == "u":
		return g.recordRule(p, old)
	}
	return ""
}

// setTopology makes a list atomic, a set, or a map by name. The list l alone has items with a name.
func (g *Gen) setTopology(p *props, name string) {
	p.XListType, p.XListMapKeys = nil, nil
	switch {
	case name == "l" && g.chance(60):
		p.XListType, p.XListMapKeys = new("map"), []string{"name"}
	case name != "l" && g.chance(50):
		p.XListType = new("set")
	}
}

// changeRecord makes one change of an object: a member more or less, required or not, another default,
// unknown fields, junctors, sizes or null. Only the records spec and u get new members and junctors.
func (g *Gen) changeRecord(p *props, name string, depth int, old bool) {
	keys := slices.Sorted(maps.Keys(p.Properties))
	record := name == "spec" || name == "u"
	switch g.IntN(12) {
	// A new member comes with the rule that projects add for it.
	case 0, 1:
		if k := pickOne(g, unionFields).name; record && !hasProperty(p, k) {
			if c := g.unionField(k, 0, old); c != nil {
				g.fillDefault(c, 20)
				p.Properties[k] = *c
				g.addRule(p, strings.ReplaceAll("!(has(self.§) && self.type != 'A')", "§", k))
			}
		}
	// Items of lists keep their fields, because the key of the list is one of them.
	case 2:
		if len(keys) > 0 && !strings.HasPrefix(name, "item") {
			k := pickOne(g, keys)
			delete(p.Properties, k)
			p.Required = slices.DeleteFunc(p.Required, func(r string) bool { return r == k })
		}
	case 3:
		if len(keys) > 0 {
			if k := pickOne(g, keys); !slices.Contains(p.Required, k) {
				p.Required = append(p.Required, k)
			}
		}
	// The name stays required, because it may be the key of the list.
	case 4:
		if len(p.Required) > 0 && !slices.Contains(p.Required, "name") {
			p.Required = p.Required[1:]
		}
	// Another default, or none.
	case 5:
		g.fillDefault(p, 60)
	// Unknown fields are kept, or no longer. A map cannot keep them.
	case 6:
		if p.XPreserveUnknownFields = nil; g.chance(50) && p.AdditionalProperties == nil {
			p.XPreserveUnknownFields = new(true)
		}
	// Other junctors, or none.
	case 7:
		if record {
			p.OneOf, p.AnyOf, p.Not, p.AllOf = nil, nil, nil, nil
			if g.chance(70) {
				g.unionJunctor(p)
			}
		}
	// Another number of keys, and null becomes allowed or not. The spec itself is never null.
	case 8:
		if p.MaxProperties != nil {
			p.MaxProperties = new(int64(1 + g.IntN(3)))
		}
		p.Nullable = g.chance(40) && depth > 0
	default:
		g.addRule(p, g.newRule(p, name, old))
	}
}

func hasProperty(p *props, name string) bool {
	_, ok := p.Properties[name]
	return ok
}

// rewordRule writes a rule in another way, which mostly means the same.
// Some rewordings change the meaning: the comparison must tell those from the others.
func (g *Gen) rewordRule(text string) string {
	swap := func(a, b string) string { return strings.Replace(text, a, b, 1) }
	switch g.IntN(9) {
	case 0:
		return "!(!(" + text + "))"
	case 1:
		return "(" + text + ") || " + "false"
	case 2:
		if cond, rest, ok := strings.Cut(text, " ? "); ok && !strings.ContainsAny(cond, "(") {
			if then, ok := strings.CutSuffix(rest, " : true"); ok {
				return "!(" + cond + ") || (" + then + ")"
			}
		}
	case 3:
		if a, b, ok := strings.Cut(text, " || "); ok && isBalanced(a) && isBalanced(b) {
			return b + " || " + a
		}
	case 4:
		return swap("has(self.a)", "has(self.b)")
	case 5:
		return swap("'A'", "'B'")
	case 6:
		return swap("<=", "<")
	case 7:
		return swap("exists_one(", "exists(")
	}
	return "(" + text + ") || has(self.b)"
}

// isBalanced reports whether a part of a rule can stand alone, as far as its brackets say.
func isBalanced(s string) bool {
	return strings.Count(s, "(") == strings.Count(s, ")") && !strings.ContainsAny(s, "?[")
}

// Values returns values of a small domain, at most so many: those that the schemas, of which each may be nil, speak of. Each
// of them accepts some of these, as a rule.
// All combinations of the values of fields would be too many, so after each field a random part of them
// is kept.
func (g *Gen) Values(most int, sides ...*props) []any {
	sides = slices.DeleteFunc(slices.Clone(sides), func(p *props) bool { return p == nil })
	if len(sides) == 0 {
		return []any{"x"}
	}
	p := sides[0]
	out := []any{}
	if slices.ContainsFunc(sides, func(p *props) bool { return p.Nullable }) {
		out = append(out, nil)
	}
	switch p.Type {
	case "string":
		// All words of all enums are tried, and some others if a side has no enum.
		words := []string{}
		for _, s := range sides {
			for _, e := range s.Enum {
				var w string
				if json.Unmarshal(e.Raw, &w) == nil && !slices.Contains(words, w) {
					words = append(words, w)
				}
			}
		}
		if len(words) == 0 || slices.ContainsFunc(sides, func(p *props) bool { return len(p.Enum) == 0 }) {
			words = append(words, "x", "y", "zz")
		}
		for _, w := range words {
			out = append(out, w)
		}
	case "integer":
		out = append(out, int64(0), int64(1), int64(2), int64(3))
	case "boolean":
		out = append(out, false, true)
	case "array":
		items := make([]*props, len(sides))
		for i, s := range sides {
			items[i] = s.Items.Schema
		}
		// Lists of no, one and two items are enough for rules that compare items with each other; one
		// of three is for the bounds.
		one := g.Values(6, items...)
		out = append(out, []any{})
		for _, x := range one {
			out = append(out, []any{x})
		}
		for range 6 {
			out = append(out, []any{pickOne(g, one), pickOne(g, one)})
		}
		out = append(out, []any{one[0], pickOne(g, one), pickOne(g, one)})
	default:
		out = append(out, g.drawObjects(most, sides)...)
	}
	return g.pickSome(most, out)
}

// pickSome returns at most so many of the values.
// The order of all is lost if there are too many.
func (g *Gen) pickSome(most int, all []any) []any {
	if len(all) > most {
		g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:most]
	}
	return all
}

// drawObjects combines the values of the fields that any of the sides declares. A field that all sides
// require is in each object. If a side keeps unknown fields, some objects have one.
func (g *Gen) drawObjects(most int, sides []*props) []any {
	names := map[string][]*props{}
	unknown := false
	for _, s := range sides {
		for name, c := range s.Properties {
			names[name] = append(names[name], &c)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			for _, key := range []string{"x", "z"} {
				names[key] = append(names[key], s.AdditionalProperties.Schema)
			}
		}
		unknown = unknown || s.XPreserveUnknownFields != nil
	}
	if unknown {
		names["z"] = append(names["z"], &props{Type: "string", Enum: []apiextensionsv1.JSON{rawJSON("x")}})
	}
	out := []any{map[string]any{}}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		values := g.Values(8, names[name]...)
		if unknown && g.chance(30) {
			values = append(values, "q", map[string]any{"q": int64(1)})
		}
		demanded := !slices.ContainsFunc(sides, func(p *props) bool { return !slices.Contains(p.Required, name) })
		var next []any
		for _, o := range out {
			before, _ := o.(map[string]any)
			if !demanded {
				next = append(next, o)
			}
			for _, v := range values {
				next = append(next, withField(before, name, v))
			}
		}
		out = g.pickSome(most, next)
	}
	return out
}

// withField returns a copy of an object with one more field.
func withField(o map[string]any, name string, v any) map[string]any {
	o = maps.Clone(o)
	o[name] = v
	return o
}

// Near returns one of the values that differs from v in one field, where there is one, or any of them.
// An update to such a value is what a controller does, and what rules about updates are written for.
func (g *Gen) Near(v any, all []any) any {
	from := g.IntN(len(all))
	for i := range all {
		if w := all[(from+i)%len(all)]; countDifferences(v, w) == 1 {
			return w
		}
	}
	return all[from]
}

// countDifferences counts the fields in which two objects differ, one that only one has included. Values
// below count as a whole; what is no object has no fields.
func countDifferences(v, w any) int {
	a, _ := v.(map[string]any)
	b, _ := w.(map[string]any)
	n := 0
	for k, x := range a {
		if y, ok := b[k]; !ok || !reflect.DeepEqual(x, y) {
			n++
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			n++
		}
	}
	return n
}
