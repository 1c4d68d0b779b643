package upstream_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/tools/draws"
)

type props = apiextensionsv1.JSONSchemaProps

// sorted are the names of m in order, so that a seed makes the same thing again.
func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// generator makes random schemas as real CRDs have them, and objects near to them.
type generator struct{ *rand.Rand }

var names = []string{"a", "b", "c", "spec", "status", "name", "kind", "foo-bar", "x.y", "namespace", "a__b", "$odd"}

// seeds calls f with the seeds of a test that has n cases, until it fails.
func seeds(t *testing.T, n int, f func(seed uint64)) {
	t.Helper()
	for seed := range draws.Seeds(n) {
		if f(seed); t.Failed() {
			t.Fatalf("failed with seed %d", seed)
		}
	}
}

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g generator, from ...T) T { return from[g.IntN(len(from))] }

// root makes the schema of a custom resource.
func (g generator) root() *props {
	s := g.object(4)
	s.Default, s.Nullable = nil, false
	for _, name := range []string{"spec", "status"} {
		if g.chance(80) {
			s.Properties[name] = g.schema(4)
		}
	}
	for _, name := range []string{"apiVersion", "kind"} {
		delete(s.Properties, name)
		if g.chance(70) {
			s.Properties[name] = props{Type: "string", Description: "text"}
		}
	}
	delete(s.Properties, "metadata")
	if g.chance(70) {
		s.Properties["metadata"] = props{Type: "object"}
		if g.chance(30) {
			s.Properties["metadata"] = props{Type: "object", Properties: map[string]props{"name": {Type: "string", MaxLength: new(int64(20))}}}
		}
	}
	s.XEmbeddedResource = false
	return &s
}

//go:fix inline

func (g generator) schema(depth int) props {
	var s props
	switch n := g.IntN(12); {
	case depth > 0 && n < 4:
		s = g.object(depth)
	case depth > 0 && n < 6:
		s = g.array(depth)
	case depth > 0 && n < 7:
		s = g.mapping(depth)
	case n < 9:
		s = props{Type: "string"}
		if g.chance(20) {
			s.Pattern = pick(g, "^[a-z]*$", "^x", "[0-9]+")
		}
		if g.chance(20) {
			s.MaxLength = new(int64(g.IntN(4)))
		}
		if g.chance(20) {
			s.MinLength = new(int64(g.IntN(3)))
		}
		if g.chance(15) {
			s.Format = pick(g, "date-time", "duration", "byte", "uri", "ipv4", "int32", "nonsense", "date")
		}
		if g.chance(15) {
			s.Enum = []apiextensionsv1.JSON{{Raw: []byte(`"x"`)}, {Raw: []byte(`"xyz"`)}, {Raw: []byte(`""`)}}
		}
	case n < 10:
		s = props{Type: pick(g, "integer", "number")}
		if g.chance(30) {
			s.Minimum = new(pick(g, 0.0, 1, 2.5))
			s.ExclusiveMinimum = g.chance(30)
		}
		if g.chance(30) {
			s.Maximum = new(pick(g, 1.0, 3, 2.5))
			s.ExclusiveMaximum = g.chance(30)
		}
		if g.chance(10) {
			s.MultipleOf = new(pick(g, 1.0, 2, 0.5))
		}
		if g.chance(20) {
			s.Format = pick(g, "int32", "int64", "float", "double", "byte")
		}
		if g.chance(10) {
			s.Enum = []apiextensionsv1.JSON{{Raw: []byte(`1`)}, {Raw: []byte(`2`)}, {Raw: []byte(`2.5`)}}
		}
	case n < 11:
		s = props{Type: "boolean"}
	default:
		switch g.IntN(3) {
		case 0:
			s = props{XIntOrString: true}
			if g.chance(50) {
				s.AnyOf = []props{{Type: "integer"}, {Type: "string"}}
			}
			if g.chance(30) {
				s.Pattern = "^[0-9]+%$"
			}
			if g.chance(30) {
				s.Maximum = new(2.0)
			}
		case 1:
			s = props{XPreserveUnknownFields: new(true)}
		default:
			s = props{Type: "object", XPreserveUnknownFields: new(true)}
			if g.chance(50) {
				s.XEmbeddedResource = true
				if g.chance(50) {
					s.Properties = map[string]props{"spec": g.schema(depth - 1), "kind": {Type: "string"}}
				}
			}
		}
	}
	s.Nullable = g.chance(15)
	if g.chance(20) {
		s.Description, s.Title = "some text", "title"
	}
	if g.chance(25) {
		raw, err := json.Marshal(g.value(&s, 85))
		if err == nil {
			s.Default = &apiextensionsv1.JSON{Raw: raw}
		}
	}
	if g.chance(12) {
		s.XValidations = g.rules(&s)
	}
	return s
}

func (g generator) object(depth int) props {
	s := props{Type: "object", Properties: map[string]props{}}
	for range 1 + g.IntN(5) {
		s.Properties[pick(g, names...)] = g.schema(depth - 1)
	}
	for _, name := range sorted(s.Properties) {
		if g.chance(20) {
			s.Required = append(s.Required, name)
		}
	}
	if g.chance(10) {
		s.XPreserveUnknownFields = new(true)
	}
	if g.chance(10) {
		s.MaxProperties = new(int64(g.IntN(4)))
	}
	if g.chance(10) {
		s.MinProperties = new(int64(g.IntN(3)))
	}
	if g.chance(15) {
		s.XMapType = new(pick(g, "atomic", "granular"))
	}
	if g.chance(25) {
		branches := []props{g.branch(&s), g.branch(&s)}
		switch g.IntN(4) {
		case 0:
			s.AllOf = branches
		case 1:
			s.AnyOf = branches
		case 2:
			s.OneOf = branches
		default:
			s.Not = &branches[0]
		}
	}
	return s
}

// branch makes a schema for a junctor of the object s.
func (g generator) branch(s *props) props {
	b := props{Properties: map[string]props{}}
	for _, name := range sorted(s.Properties) {
		child := s.Properties[name]
		switch {
		case g.chance(25):
			b.Required = append(b.Required, name)
		case g.chance(30) && child.Type == "string":
			b.Properties[name] = props{Enum: []apiextensionsv1.JSON{{Raw: []byte(`"x"`)}}}
		case g.chance(30) && child.Type == "integer":
			b.Properties[name] = props{Minimum: new(2.0)}
		case g.chance(30) && child.Type == "object" && len(child.Properties) > 0:
			b.Properties[name] = g.branch(&child)
		}
	}
	return b
}

func (g generator) array(depth int) props {
	item := g.schema(depth - 1)
	s := props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
	if g.chance(20) {
		s.MaxItems = new(int64(g.IntN(4)))
	}
	if g.chance(20) {
		s.MinItems = new(int64(g.IntN(3)))
	}
	switch {
	case g.chance(30) && item.Type == "object" && len(item.Properties) > 0:
		s.XListType = new("map")
		for name := range item.Properties {
			if t := item.Properties[name].Type; t == "string" || t == "integer" {
				s.XListMapKeys = append(s.XListMapKeys, name)
			}
		}
		if s.XListMapKeys == nil {
			s.XListType = nil
		}
	case g.chance(30):
		s.XListType = new(pick(g, "set", "atomic"))
	}
	return s
}

func (g generator) mapping(depth int) props {
	s := props{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}}
	if g.chance(85) {
		child := g.schema(depth - 1)
		s.AdditionalProperties.Schema = &child
	}
	if g.chance(20) {
		s.MaxProperties = new(int64(g.IntN(4)))
	}
	return s
}

// rules makes validation rules that have a chance to compile at s.
func (g generator) rules(s *props) apiextensionsv1.ValidationRules {
	var out apiextensionsv1.ValidationRules
	add := func(format string, args ...any) {
		r := apiextensionsv1.ValidationRule{Rule: fmt.Sprintf(format, args...)}
		if g.chance(30) {
			r.Message = "no"
		}
		out = append(out, r)
	}
	switch {
	case s.Type == "object" && len(s.Properties) > 0:
		names := make([]string, 0, len(s.Properties))
		for _, name := range sorted(s.Properties) {
			if name != "" && name != "$odd" {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return nil
		}
		n, m := escape(pick(g, names...)), escape(pick(g, names...))
		switch g.IntN(6) {
		case 0:
			add("has(self.%s)", n)
		case 1:
			add("!has(self.%s) || has(self.%s)", n, m)
		case 2:
			add("self == oldSelf")
		case 3:
			add("!has(self.%s) || !has(oldSelf.%s) || self.%s == oldSelf.%s", n, n, n, n)
		case 4:
			add("has(self.%s) && self.%s == self.%s", n, n, m)
			out[0].MessageExpression = fmt.Sprintf("has(self.%s) ? 'yes' : 'no'", m)
		default:
			add("!has(self.%s)", n)
			out[0].FieldPath = "." + names[0]
		}
	case s.Type == "object":
		add("%s", pick(g, "self.all(k, k.size() > 1)", "self.size() < 2", "!('a' in self)"))
	case s.Type == "array":
		add("%s", pick(g, "self.size() < 2", "self.all(x, self.exists_one(y, x == y))", "self == oldSelf"))
	case s.Type == "string" && s.Format == "":
		add("%s", pick(g, "self.size() < 2", "self.startsWith('x')", "self == oldSelf", "self != 'x'"))
	case s.Type == "integer":
		add("%s", pick(g, "self < 2", "self >= oldSelf", "self % 2 == 0"))
	default:
		add("%s", pick(g, "self == oldSelf", "type(self) == string", "1 / (self == oldSelf ? 0 : 1) == 1"))
		if g.chance(50) {
			out[0].OptionalOldSelf = new(true)
			out[0].Rule = "!oldSelf.hasValue() || self == oldSelf.value()"
		}
	}
	return out
}

func escape(name string) string {
	switch name {
	case "foo-bar":
		return "foo__dash__bar"
	case "x.y":
		return "x__dot__y"
	case "namespace":
		return "__namespace__"
	case "a__b":
		return "a__underscores__b"
	}
	return name
}

// object makes an object for the schema of a custom resource.
func (g generator) resource(s *props, fit int) map[string]any {
	o, _ := g.value(s, fit).(map[string]any)
	if o == nil {
		o = map[string]any{}
	}
	o["apiVersion"], o["kind"] = "example.com/v1", "Widget"
	o["metadata"] = map[string]any{"name": "w", "namespace": "default", "resourceVersion": "7", "uid": "u"}
	return o
}

// value makes a value that fits s with about fit percent at each step.
func (g generator) value(s *props, fit int) any {
	if !g.chance(fit) {
		return pick[any](g, nil, int64(1), "x", "12%", 2.5, 2.0, true, map[string]any{"a": "x"}, []any{"x", nil}, map[string]any{}, []any{}, int64(1)<<40)
	}
	if s.Nullable && g.chance(20) {
		return nil
	}
	switch s.Type {
	case "object":
		o := map[string]any{}
		for _, name := range sorted(s.Properties) {
			if g.chance(60) {
				child := s.Properties[name]
				o[name] = g.value(&child, fit)
			}
		}
		if s.AdditionalProperties != nil {
			for range g.IntN(3) {
				child := &props{}
				if s.AdditionalProperties.Schema != nil {
					child = s.AdditionalProperties.Schema
				}
				o[pick(g, names...)] = g.value(child, fit)
			}
		}
		if s.XEmbeddedResource {
			o["apiVersion"], o["kind"] = "v1", "Pod"
			if g.chance(50) {
				o["metadata"] = pick[any](g, map[string]any{"name": "p"}, map[string]any{"name": "p", "labels": map[string]any{"a": "b"}}, map[string]any{"labels": int64(1)}, map[string]any{"bad": "p"})
			}
		}
		if !g.chance(fit) {
			o[pick(g, "unknown", "a", "b")] = pick[any](g, "x", int64(1), map[string]any{"deep": int64(1)})
		}
		return o
	case "array":
		l := []any{}
		for range g.IntN(4) {
			l = append(l, g.value(s.Items.Schema, fit))
		}
		return l
	case "string":
		switch s.Format {
		case "date-time":
			return pick(g, "2024-01-02T03:04:05Z", "today")
		case "duration":
			return pick(g, "5s", "1h30m", "soon")
		case "byte":
			return pick(g, "aGk=", "???")
		case "ipv4":
			return pick(g, "10.0.0.1", "::1")
		}
		return pick(g, "x", "xyz", "", "abc", "é", "7")
	case "integer":
		return pick[any](g, int64(0), int64(1), int64(2), int64(3), int64(1)<<40, 2.0)
	case "number":
		return pick[any](g, int64(1), int64(2), 2.5, 0.5, 1e300)
	case "boolean":
		return g.chance(50)
	}
	if s.XIntOrString {
		return pick[any](g, int64(1), int64(3), "10%", "x")
	}
	return pick[any](g, int64(1), "x", map[string]any{"a": map[string]any{"b": nil}}, []any{int64(1)})
}
