package schemagen

// Which objects does a schema meet? Most that are drawn fit it, some nearly, and a few not at all.

import (
	"maps"
	"regexp"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// Object returns an object of the resource, mostly as the schema wants it: kind and apiVersion are example.com/v1 Example.
// A schema that draws no object, which happens now and then, gives an empty one.
func (g *Gen) Object(root *props) map[string]any {
	v, _ := g.Value(root, 0).(map[string]any)
	if v == nil {
		v = map[string]any{}
	}
	v["apiVersion"], v["kind"] = "example.com/v1", "Example"
	v["metadata"] = map[string]any{"name": "example", "namespace": "default"}
	return v
}

// Value returns a value for the schema. About one part in twenty is not as the schema wants it.
// Values that fit are what proofs are about; the others show that validation and the prover refuse the
// same.
func (g *Gen) Value(p *props, depth int) any {
	if g.chance(2) {
		return g.drawJunk(depth)
	}
	if p.Nullable && g.chance(15) {
		return nil
	}
	if len(p.Enum) > 0 && g.chance(85) {
		return decodeJSON(pickOne(g, p.Enum).Raw)
	}
	switch {
	case p.XIntOrString && g.chance(50), p.Type == "integer":
		return g.drawInteger(p)
	case p.XIntOrString, p.Type == "string":
		return g.drawText(p)
	case p.Type == "number":
		if g.chance(50) {
			return g.drawInteger(p)
		}
		return float64(g.drawInteger(p)) + 0.5
	case p.Type == "boolean":
		return g.chance(50)
	case p.Type == "array":
		return g.drawList(p, depth)
	case p.Type == "object":
		return g.drawRecord(p, depth)
	}
	return g.drawJunk(depth)
}

// drawInteger draws from numbers around the bounds, because faults in comparisons show there. One in a
// hundred is beyond 32 bits.
func (g *Gen) drawInteger(p *props) int64 {
	around := []int64{0, 1, int64(g.IntN(20) - 5)}
	if p.Minimum != nil {
		around = append(around, int64(*p.Minimum), int64(*p.Minimum)+1)
	}
	if p.Maximum != nil {
		around = append(around, int64(*p.Maximum), int64(*p.Maximum)-1)
	}
	if p.MultipleOf != nil {
		around = append(around, int64(*p.MultipleOf)*int64(g.IntN(4)))
	}
	v := pickOne(g, around)
	if g.chance(8) {
		v += int64(g.IntN(3) - 1)
	}
	if g.chance(1) {
		v = 1 << 40
	}
	return v
}

// drawText tries a dozen words for one that fits the pattern, the lengths and the format. If none does,
// it returns the last one. Length counts bytes here, which only matters for é.
func (g *Gen) drawText(p *props) string {
	best := pickOne(g, words)
	var re *regexp.Regexp
	if p.Pattern != "" {
		re, _ = regexp.Compile(p.Pattern)
	}
	for range 12 {
		s := pickOne(g, words)
		if g.chance(30) {
			s += pickOne(g, words)
		}
		ok := re == nil || re.MatchString(s)
		ok = ok && (p.MinLength == nil || int64(len(s)) >= *p.MinLength) && (p.MaxLength == nil || int64(len(s)) <= *p.MaxLength)
		if p.Format != "" && strfmt.Default.ContainsName(p.Format) {
			ok = ok && strfmt.Default.Validates(p.Format, s)
		}
		if ok {
			return s
		}
		best = s
	}
	return best
}

// drawList draws up to two items, or more if the schema asks for more. One in ten lists ignores a bound.
func (g *Gen) drawList(p *props, depth int) any {
	n := g.IntN(3)
	if p.MinItems != nil && g.chance(90) {
		n = max(n, int(min(*p.MinItems, 50)))
	}
	if p.MaxItems != nil && g.chance(90) {
		n = min(n, int(*p.MaxItems))
	}
	if depth > 8 {
		n = min(n, 1)
	}
	out := []any{}
	for range n {
		if p.Items != nil && p.Items.Schema != nil {
			out = append(out, g.Value(p.Items.Schema, depth+1))
		} else {
			out = append(out, g.drawJunk(depth+1))
		}
	}
	return out
}

// drawRecord draws an object. Required fields are there but for three of a hundred; of objects with many
// properties only some are, so that values stay small.
func (g *Gen) drawRecord(p *props, depth int) any {
	out := map[string]any{}
	keys := slices.Sorted(maps.Keys(p.Properties))
	// Otherwise an object of an inflated schema would have thousands of fields.
	few := len(keys) > 12 // of large objects only some fields
	for _, k := range keys {
		c := p.Properties[k]
		need := slices.Contains(p.Required, k) && g.chance(97)
		if need || !few && g.chance(50) || few && g.chance(max(2, 300/len(keys))) {
			if depth > 12 && !need {
				continue
			}
			out[k] = g.Value(&c, depth+1)
		}
	}
	if ap := p.AdditionalProperties; ap != nil {
		for range g.IntN(3) {
			if ap.Schema != nil {
				out[pickOne(g, []string{"k1", "k2", "a", "b.c"})] = g.Value(ap.Schema, depth+1)
			}
		}
	}
	if p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields && g.chance(50) {
		out[pickOne(g, append([]string{"extra"}, names...))] = g.drawJunk(depth + 1)
	}
	return out
}

// drawJunk returns a small value of any type.
// Deeper than six levels it is a scalar.
func (g *Gen) drawJunk(depth int) any {
	n := g.IntN(9)
	if depth > 6 {
		n = g.IntN(6)
	}
	switch n {
	case 0:
		return nil
	case 1:
		return g.chance(50)
	case 2:
		return int64(g.IntN(12) - 2)
	case 3:
		return 0.5 + float64(g.IntN(4))
	case 4, 5:
		return pickOne(g, words)
	case 6:
		return []any{g.drawJunk(depth + 1)}
	case 7:
		return map[string]any{}
	}
	return map[string]any{pickOne(g, names): g.drawJunk(depth + 1)}
}

// Mutate changes one to three places of a value in place and returns it.
// It keeps apiVersion, kind and metadata, without which no object is one.
func (g *Gen) Mutate(v map[string]any) map[string]any {
	for range 1 + g.IntN(3) {
		g.mutateIn(v, true)
	}
	return v
}

// mutateIn changes one place of a map or a list, or goes further down: it changes a scalar a little,
// removes a field, replaces a value, or adds a field that the schema may not know.
func (g *Gen) mutateIn(v any, root bool) {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if root {
			keys = slices.DeleteFunc(keys, func(k string) bool { return k == "apiVersion" || k == "kind" || k == "metadata" })
		}
		if len(keys) == 0 {
			return
		}
		k := pickOne(g, keys)
		switch {
		case g.chance(55):
			g.mutateIn(v[k], false)
			if s, ok := v[k].(string); ok {
				v[k] = s + pickOne(g, words)
			}
			if i, ok := v[k].(int64); ok {
				v[k] = i + int64(g.IntN(5)-2)
			}
		case g.chance(35):
			delete(v, k)
		case g.chance(50):
			v[k] = g.drawJunk(3)
		default:
			v[pickOne(g, names)] = g.drawJunk(3)
		}
	case []any:
		if len(v) > 0 {
			i := g.IntN(len(v))
			if g.chance(60) {
				g.mutateIn(v[i], false)
			} else {
				v[i] = g.drawJunk(3)
			}
		}
	}
}

// validDefault returns a default that the schema itself accepts, by simple checks.
// It returns false if it finds none. Junctors and rules are not looked at, so a rare default is refused
// all the same.
func (g *Gen) validDefault(p *props) (apiextensionsv1.JSON, bool) {
	switch p.Type {
	case "string":
		if len(p.Enum) > 0 {
			return pickOne(g, p.Enum), true
		}
		if p.Format == "" {
			for range 10 {
				s := pickOne(g, words)
				re := regexp.MustCompile(p.Pattern)
				if re.MatchString(s) && (p.MinLength == nil || int64(len(s)) >= *p.MinLength) && (p.MaxLength == nil || int64(len([]rune(s))) <= *p.MaxLength) {
					return rawJSON(s), true
				}
			}
		}
	case "boolean":
		if len(p.Enum) == 0 {
			return rawJSON(g.chance(50)), true
		}
	case "integer":
		if p.Minimum == nil && p.Maximum == nil && p.MultipleOf == nil && len(p.Enum) == 0 {
			return rawJSON(g.IntN(5)), true
		}
	case "object":
		if len(p.Required) == 0 && p.MinProperties == nil && p.AnyOf == nil && p.OneOf == nil && p.AllOf == nil && p.Not == nil && len(p.XValidations) == 0 {
			return rawJSON(map[string]any{}), true
		}
	}
	return apiextensionsv1.JSON{}, false
}

// decodeJSON decodes a literal as the API server does, with int64 for integers; nil if it is no JSON.
func decodeJSON(b []byte) any {
	var v any
	if err := utiljson.Unmarshal(b, &v); err != nil {
		return nil
	}
	return v
}
