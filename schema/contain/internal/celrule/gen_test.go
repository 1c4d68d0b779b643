package celrule

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

type props = apiextensionsv1.JSONSchemaProps

type itemsOf = apiextensionsv1.JSONSchemaPropsOrArray

// gen makes random schemas, values that they accept, and rules about them.
type gen struct {
	*rand.Rand
	vars int
}

func pick[T any](g *gen, xs ...T) T { return xs[g.IntN(len(xs))] }

func (g *gen) chance(percent int) bool { return g.IntN(100) < percent }

var fieldNames = []string{"a", "b", "c", "d", "e", "f-g", "x.y", "in", "a__b", "namespace"}

func raw(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

// object makes an object schema.
func (g *gen) object(depth int) props {
	p := props{Type: "object", Properties: map[string]props{}}
	for range 2 + g.IntN(4) {
		p.Properties[pick(g, fieldNames...)] = g.schema(depth - 1)
	}
	if g.chance(20) {
		t := true
		p.XPreserveUnknownFields = &t
	}
	return p
}

func (g *gen) schema(depth int) props {
	var p props
	n := 12
	if depth > 0 {
		n = 22
	}
	switch g.IntN(n) {
	case 0, 1, 2, 3:
		p = props{Type: "string"}
		switch g.IntN(10) {
		case 0:
			p.Enum = []apiextensionsv1.JSON{*raw(`"A"`), *raw(`"B"`), *raw(`"C"`)}
		case 1, 2:
			p.Default = raw(pick(g, `"A"`, `"abc"`, `""`))
		}
	case 4, 5, 6:
		p = props{Type: "integer"}
		if g.chance(25) {
			p.Default = raw(pick(g, `0`, `1`, `5`))
		}
	case 7:
		p = props{Type: "number"}
		if g.chance(20) {
			p.Default = raw(pick(g, `0`, `1.5`))
		}
	case 8, 9:
		p = props{Type: "boolean"}
		if g.chance(25) {
			p.Default = raw(pick(g, `true`, `false`))
		}
	case 10:
		p = props{XIntOrString: true}
		if g.chance(20) {
			p.Default = raw(pick(g, `1`, `"abc"`))
		}
	case 11:
		p = props{Type: "string", Format: pick(g, "duration", "date", "date-time", "byte")}
	case 12, 13, 14, 15:
		item := g.schema(depth - 1)
		item.Default = nil
		p = props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
		switch item.Type {
		case "string", "integer", "boolean":
			if g.chance(30) && !item.Nullable {
				p.XListType = new("set")
			}
		case "object":
			for _, name := range slices.Sorted(maps.Keys(item.Properties)) {
				c := item.Properties[name]
				if c.Type == "string" && c.Format == "" && c.Default == nil && !c.Nullable && g.chance(50) && !item.Nullable {
					p.XListType, p.XListMapKeys = new("map"), []string{name}
					item.Required = []string{name}
					break
				}
			}
		}
		if g.chance(10) {
			p.Default = raw(`[]`)
		}
	case 16, 17:
		item := g.schema(depth - 1)
		item.Default = nil
		p = props{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &item}}
		if g.chance(10) {
			p.Default = raw(`{}`)
		}
	default:
		p = g.object(depth)
		if g.chance(15) {
			p.Default = raw(`{}`)
		}
		if g.chance(10) {
			p.XEmbeddedResource = true
			p.Required = nil
		}
	}
	if g.chance(12) {
		p.Nullable = true
	}
	return p
}

var strs = []string{
	"", "A", "B", "C", "abc", "a", "ab", "x/y", "5", "-1", "http://h", "10.0.0.1", "b", "aé", "1s",
	"0", "007", "65535", "65536", "+3", "true", "ABC", "a-b", "-a", "é", "::1", "1h30m", "1.5ms", "-1s", "999us", "1000us", "0s",
	"1000000ns", "HTTPS://x/y", "/p", "ftp:", "1Gi", "1e3", "10.0.0.0/8", "fe80::/64", "256.1.1.1", "a/b/c", "a.b", "A_b",
}

// value makes a value that the schema accepts.
func (g *gen) value(p *props) any {
	if p.Nullable && g.chance(20) {
		return nil
	}
	if p.XIntOrString {
		return pick[any](g, int64(0), int64(1), int64(5), "abc", "A", "5", float64(1))
	}
	switch p.Type {
	case "string":
		switch p.Format {
		case "duration":
			return pick[any](g, "1s", "1h", "5m", "1 day", "0s")
		case "date":
			return pick[any](g, "2020-01-01", "2021-02-03")
		case "date-time":
			return pick[any](g, "2020-01-01T00:00:00Z", "2021-02-03T01:02:03+01:00", "2020-01-01t00:00:00z", "2020-01-01T00:00:00x5Z", "2020-01-01T00:00:00+99:00")
		case "byte":
			return pick[any](g, "", "YWJj", "QQ==", "+/+/")
		}
		if p.Enum != nil {
			return pick[any](g, "A", "B", "C")
		}
		return pick(g, strs...)
	case "integer":
		if g.chance(4) {
			return pick[any](g, float64(1), float64(5))
		}
		return pick[any](g, int64(0), int64(1), int64(2), int64(3), int64(5), int64(-1), int64(10), int64(9223372036854775807), int64(-9223372036854775808))
	case "number":
		return pick[any](g, int64(0), int64(1), 1.5, -2.5, int64(5), 1e300, 0.1, int64(9007199254740993))
	case "boolean":
		return g.chance(50)
	case "array":
		n := pick(g, 0, 1, 1, 2, 2, 3)
		out := []any{}
		seen := map[string]bool{}
		for range n {
			v := g.value(p.Items.Schema)
			key := fmt.Sprint(v)
			if p.XListMapKeys != nil {
				if m, ok := v.(map[string]any); ok {
					key = fmt.Sprint(m[p.XListMapKeys[0]])
				}
			}
			if p.XListType != nil && seen[key] {
				continue
			}
			seen[key] = true
			out = append(out, v)
		}
		return out
	case "object":
		out := map[string]any{}
		if p.AdditionalProperties != nil {
			for range pick(g, 0, 1, 1, 2, 3) {
				out[pick(g, "a", "b", "A", "k1", "x.y", "5")] = g.value(p.AdditionalProperties.Schema)
			}
			return out
		}
		for _, k := range slices.Sorted(maps.Keys(p.Properties)) {
			c := p.Properties[k]
			if g.chance(65) || len(p.Required) > 0 && p.Required[0] == k {
				out[k] = g.value(&c)
			}
		}
		if p.XPreserveUnknownFields != nil && g.chance(30) {
			out["zz"] = pick[any](g, "u", int64(1), []any{})
		}
		if p.XEmbeddedResource {
			if g.chance(70) {
				out["kind"] = "K"
				out["apiVersion"] = "v1"
			}
			if g.chance(50) {
				out["metadata"] = map[string]any{"name": pick(g, strs...)}
			}
		}
		return out
	}
	return nil
}

// variable of a rule under construction.
type genVar struct {
	text  string
	p     *props
	depth int
}

// paths returns expressions for all values below the variables.
func (g *gen) paths(vars []genVar) []genVar {
	var out []genVar
	var down func(v genVar)
	down = func(v genVar) {
		out = append(out, v)
		if v.depth > 3 || v.p.Type != "object" || v.p.AdditionalProperties != nil {
			return
		}
		for _, name := range fieldNames {
			c, ok := v.p.Properties[name]
			if !ok {
				continue
			}
			if esc, ok := apiservercel.Escape(name); ok {
				down(genVar{v.text + "." + esc, &c, v.depth + 1})
			}
		}
		if v.p.XEmbeddedResource {
			out = append(out, genVar{v.text + ".metadata.name", &props{Type: "string"}, v.depth + 1}, genVar{v.text + ".kind", &props{Type: "string"}, v.depth + 1})
		}
	}
	for _, v := range vars {
		down(v)
	}
	return out
}

func kindOf(p *props) string {
	switch {
	case p.XIntOrString:
		return "dyn"
	case p.Type == "string" && p.Format != "":
		return p.Format
	case p.Type == "object" && p.AdditionalProperties != nil:
		return "map"
	}
	return p.Type
}

func (g *gen) pathOf(vars []genVar, kind string) (genVar, bool) {
	var fit []genVar
	for _, v := range g.paths(vars) {
		if kindOf(v.p) == kind {
			fit = append(fit, v)
		}
	}
	if len(fit) == 0 {
		return genVar{}, false
	}
	return pick(g, fit...), true
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

func (g *gen) str(vars []genVar, depth int) string {
	if v, ok := g.pathOf(vars, "string"); ok && g.chance(75) {
		if depth > 0 {
			switch g.IntN(16) {
			case 0:
				return v.text + ".lowerAscii()"
			case 1:
				return "(" + g.boolean(vars, depth-1) + " ? " + v.text + " : " + quote(pick(g, strs...)) + ")"
			case 2:
				return "(" + quote(pick(g, "x", "a")) + " + " + v.text + ")"
			case 3:
				return "(" + v.text + " + " + quote(pick(g, "x", "b")) + ")"
			case 4:
				return v.text + ".substring(" + pick(g, "0, 1", "1", "1, 2") + ")"
			case 5:
				return "string(" + v.text + ")"
			case 6:
				if i := strings.LastIndex(v.text, "."); i > 0 {
					return v.text[:i] + ".?" + v.text[i+1:] + ".orValue(" + quote(pick(g, strs...)) + ")"
				}
			case 7:
				return v.text + ".replace('a', 'b')"
			case 8:
				return "url(" + v.text + ").getScheme()"
			case 9:
				return v.text + ".charAt(" + pick(g, "0", "1", "3") + ")"
			case 10:
				return v.text + pick(g, ".upperAscii()", ".trim()", ".substring(0, 2).upperAscii()", ".split('/')[0]", ".find('^[a-z]+')")
			case 11:
				if i := strings.LastIndex(v.text, "."); i > 0 {
					return v.text[:i] + ".?" + v.text[i+1:] + ".optMap(o, o + 'b').orValue(" + quote(pick(g, strs...)) + ")"
				}
			}
		}
		return v.text
	}
	if depth > 0 && g.chance(10) {
		return "string(" + g.integer(vars, depth-1) + ")"
	}
	return quote(pick(g, strs...))
}

func (g *gen) integer(vars []genVar, depth int) string {
	if depth > 0 {
		switch g.IntN(12) {
		case 0, 1:
			if v, ok := g.pathOf(vars, pick(g, "array", "map", "string")); ok {
				return pick(g, "size("+v.text+")", v.text+".size()")
			}
		case 2:
			return "(" + g.integer(vars, depth-1) + pick(g, " + ", " - ", " * ") + fmt.Sprint(pick(g, 0, 1, 2, -3, 7)) + ")"
		case 3:
			return "(" + fmt.Sprint(pick(g, 0, 1, 10, -2)) + pick(g, " + ", " - ", " * ") + g.integer(vars, depth-1) + ")"
		case 4:
			return "(" + g.integer(vars, depth-1) + pick(g, " / ", " % ") + fmt.Sprint(pick(g, 1, 2, 3, -2)) + ")"
		case 5, 6:
			n := 2 + g.IntN(3)
			var parts []string
			for range n {
				parts = append(parts, "("+g.boolean(vars, depth-1)+" ? 1 : 0)")
			}
			return "(" + strings.Join(parts, " + ") + ")"
		case 7:
			if v, ok := g.pathOf(vars, "array"); ok {
				if v.p.Items != nil && v.p.Items.Schema != nil && kindOf(v.p.Items.Schema) == "integer" && g.chance(50) {
					return v.text + pick(g, ".min()", ".max()")
				}
				return g.macro(v, "filter", vars, depth) + ".size()"
			}
		case 8:
			return "-" + "(" + g.integer(vars, depth-1) + ")"
		case 9:
			if v, ok := g.pathOf(vars, "string"); ok {
				return pick(g, "int("+v.text+")", v.text+".indexOf('b')", "ip("+v.text+").family()", "size("+v.text+".split('/'))")
			}
		case 10:
			if v, ok := g.pathOf(vars, "integer"); ok {
				if i := strings.LastIndex(v.text, "."); i > 0 {
					return v.text[:i] + ".?" + v.text[i+1:] + ".orValue(" + pick(g, "0", "5") + ")"
				}
			}
		}
	}
	if v, ok := g.pathOf(vars, "integer"); ok && g.chance(70) {
		return v.text
	}
	return pick(g, "0", "1", "2", "3", "5", "-1", "10")
}

// macro makes a call of a macro over a list or a map.
func (g *gen) macro(v genVar, name string, vars []genVar, depth int) string {
	g.vars++
	x := fmt.Sprintf("v%d", g.vars)
	inner := append([]genVar{}, vars...)
	if v.p.Type == "array" {
		inner = append(inner, genVar{x, v.p.Items.Schema, 1})
		if g.chance(60) {
			inner = inner[len(inner)-1:]
		}
	} else {
		inner = append(inner, genVar{x, &props{Type: "string"}, 1}, genVar{v.text + "[" + x + "]", v.p.AdditionalProperties.Schema, 1})
		if g.chance(60) {
			k := 1 + g.IntN(2)
			inner = inner[len(inner)-k:]
		}
	}
	return v.text + "." + name + "(" + x + ", " + g.boolean(inner, depth-1) + ")"
}

var binaryOrders = []string{" < ", " <= ", " > ", " >= ", " == ", " != "}

func (g *gen) boolean(vars []genVar, depth int) string {
	if depth > 0 {
		switch g.IntN(26) {
		case 0, 1:
			return "(" + g.boolean(vars, depth-1) + " && " + g.boolean(vars, depth-1) + ")"
		case 2, 3:
			return "(" + g.boolean(vars, depth-1) + " || " + g.boolean(vars, depth-1) + ")"
		case 4:
			return "!(" + g.boolean(vars, depth-1) + ")"
		case 5:
			return "(" + g.boolean(vars, depth-1) + " ? " + g.boolean(vars, depth-1) + " : " + g.boolean(vars, depth-1) + ")"
		case 6:
			return "(" + g.boolean(vars, depth-1) + pick(g, " == ", " != ") + g.boolean(vars, depth-1) + ")"
		case 7, 8, 9:
			if v, ok := g.pathOf(vars, pick(g, "array", "map")); ok {
				return g.macro(v, pick(g, "all", "all", "exists", "exists", "exists_one"), vars, depth)
			}
		case 10:
			var parts []string
			for range 2 + g.IntN(2) {
				parts = append(parts, g.boolean(vars, depth-1))
			}
			l := "[" + strings.Join(parts, ", ") + "]"
			return pick(g, l+".exists_one(x, x)", l+".filter(x, x).size() == 1", l+".all(x, x)", l+".exists(x, !x)", l+".filter(x, x).size() <= 1")
		case 11:
			if v, ok := g.pathOf(vars, "array"); ok {
				f := g.macro(v, "filter", vars, depth-1)
				g.vars++
				x := fmt.Sprintf("v%d", g.vars)
				return f + pick(g, ".all(", ".exists(", ".exists_one(") + x + ", " + g.boolean([]genVar{{x, v.p.Items.Schema, 1}}, depth-1) + ")"
			}
		case 12:
			if v, ok := g.pathOf(vars, "array"); ok {
				g.vars++
				x, y := fmt.Sprintf("v%d", g.vars), fmt.Sprintf("w%d", g.vars)
				return v.text + ".map(" + x + ", " + g.integer([]genVar{{x, v.p.Items.Schema, 1}}, depth-1) + ")" +
					pick(g, ".all(", ".exists(") + y + ", " + y + pick(g, binaryOrders...) + pick(g, "0", "1", "5") + ")"
			}
		case 13:
			if v, ok := g.pathOf(vars, "array"); ok {
				g.vars++
				x, y := fmt.Sprintf("v%d", g.vars), fmt.Sprintf("w%d", g.vars)
				inner := []genVar{{x, v.p.Items.Schema, 1}}
				if e, ok := g.pathOf(inner, pick(g, "string", "integer")); ok {
					other := y + strings.TrimPrefix(e.text, x)
					return pick(g,
						v.text+".all("+x+", "+v.text+".exists_one("+y+", "+e.text+" == "+other+"))",
						v.text+".all("+x+", "+v.text+".filter("+y+", "+other+" == "+e.text+").size() == 1)",
						v.text+".all("+x+", "+v.text+".filter("+y+", "+other+" == "+e.text+").size() <= 1)",
						v.text+".exists("+x+", "+v.text+".exists("+y+", "+e.text+" != "+other+"))",
						v.text+".filter(u, "+g.boolean([]genVar{{"u", v.p.Items.Schema, 1}}, 0)+").all("+x+", "+v.text+".exists_one("+y+", "+e.text+" == "+other+"))",
						v.text+".all("+x+", "+g.boolean(inner, 0)+" ? "+v.text+".exists_one("+y+", "+e.text+" == "+other+") : true)",
						"!"+v.text+".exists("+x+", "+v.text+".filter("+y+", "+other+" == "+e.text+").size() > 1)",
						"size("+v.text+".filter("+x+", size("+v.text+".filter("+y+", "+other+" == "+e.text+")) > 1)) == 0",
					)
				}
			}
		}
	}
	switch g.IntN(20) {
	case 0, 1, 2:
		ps := g.paths(vars)
		v := pick(g, ps...)
		if i := strings.LastIndex(v.text, "."); i > 0 && !strings.HasSuffix(v.text, "]") {
			if g.chance(20) {
				return v.text[:i] + ".?" + v.text[i+1:] + ".hasValue()"
			}
			return "has(" + v.text + ")"
		}
	case 3, 4:
		return g.integer(vars, depth) + pick(g, binaryOrders...) + g.integer(vars, depth)
	case 5:
		return g.str(vars, depth) + pick(g, " == ", " != ", " == ", " < ") + g.str(vars, depth)
	case 6:
		return g.str(vars, depth) + pick(g, ".startsWith(", ".endsWith(", ".contains(", ".matches(") + quote(pick(g, "a", "A", "b", "/", "x", "")) + ")"
	case 7:
		return g.str(vars, depth) + ".matches(" + quote(pick(g, "^a", "b$", "^[a-z]*$", "[0-9]+", "(?i)^ABC$", "^.?$")) + ")"
	case 8:
		return g.str(vars, depth) + " in [" + quote(pick(g, strs...)) + ", " + quote(pick(g, strs...)) + "]"
	case 9:
		if v, ok := g.pathOf(vars, "boolean"); ok {
			return v.text + pick(g, "", "", " == true", " != true", " == false")
		}
	case 10:
		if v, ok := g.pathOf(vars, "number"); ok {
			return pick(g, v.text, "("+v.text+" * 2.0)", "("+v.text+" - 1.5)", "double("+v.text+")") +
				pick(g, " < ", " <= ", " > ", " >= ") + pick(g, "1", "0.5", "1.5", "0", "9007199254740992.0")
		}
	case 11:
		if v, ok := g.pathOf(vars, "dyn"); ok {
			return pick(g,
				v.text+" == 'abc'", v.text+" == 1", v.text+" != 1", "type("+v.text+") == int", "type("+v.text+") == string",
				"(type("+v.text+") == string ? "+v.text+".matches('^a') : "+v.text+" > 0)", v.text+" < 3", v.text+".startsWith('a')",
				"string("+v.text+") == '5'", v.text+" in ['abc', 'x']", "int("+v.text+") < 6")
		}
	case 12:
		if v, ok := g.pathOf(vars, "array"); ok {
			switch kindOf(v.p.Items.Schema) {
			case "string":
				return g.str(vars, 0) + " in " + v.text
			case "integer":
				return g.integer(vars, 0) + " in " + v.text
			}
			return v.text + pick(g, " == []", " != []", ".size() == 1")
		}
	case 13:
		if v, ok := g.pathOf(vars, "map"); ok {
			return pick(g, quote(pick(g, "a", "b", "k1"))+" in "+v.text, "has("+v.text+".a)", "!has("+v.text+".b)",
				"size("+v.text+") < 2", v.text+" == {}", g.str(vars, 0)+" in "+v.text, "(has("+v.text+".a) ? has("+v.text+".b) : true)")
		}
	case 14:
		k := pick(g, "duration", "date", "date-time", "byte")
		if v, ok := g.pathOf(vars, k); ok {
			switch k {
			case "duration":
				return v.text + pick(g, " < ", " >= ", " == ") + pick(g, "duration('1m')", "duration('1h')", v.text)
			case "byte":
				return "size(" + v.text + ") < 2"
			}
			return v.text + pick(g, " < ", " >= ") + "timestamp('2020-06-01T00:00:00Z')"
		}
	case 15:
		if v, ok := g.pathOf(vars, "string"); ok {
			return pick(g,
				pick(g, "isURL(", "isIP(", "isQuantity(", "isCIDR(")+v.text+")",
				"duration("+v.text+")"+pick(g, binaryOrders...)+"duration('"+pick(g, "1ms", "1s", "0s", "1h", "999us", "-1s")+"')",
				"url("+v.text+").getScheme() in ['http', 'https']",
				"bool("+v.text+")",
				"quantity("+v.text+").isGreaterThan(quantity('1k'))",
				"!format."+pick(g, "dns1123Label", "dns1123Subdomain", "dns1035Label", "labelValue", "uri")+"().validate("+v.text+").hasValue()",
				v.text+pick(g, binaryOrders...)+g.str(vars, 0),
				"int("+v.text+") "+pick(g, "< 5", "> 0", "<= 65535", "== 7", "!= -1"),
			)
		}
	case 16:
		if v, ok := g.pathOf(vars, "array"); ok {
			idx := pick(g, "[0]", "[1]", "[size("+v.text+") - 1]", "[-1]")
			return "(size(" + v.text + ")" + pick(g, " != 1", " == 0", " < 2") + pick(g, " || ", " && ") +
				g.boolean([]genVar{{v.text + idx, v.p.Items.Schema, 1}}, depth-1) + ")"
		}
	case 17:
		if v, ok := g.pathOf(vars, "array"); ok {
			return v.text + pick(g, ".all(", ".exists(", ".existsOne(") + "i, z, " + g.boolean([]genVar{{"z", v.p.Items.Schema, 1}}, depth-1) + ")"
		}
	case 18:
		if v, ok := g.pathOf(vars, "map"); ok {
			inner := []genVar{{"k", &props{Type: "string"}, 1}, {"z", v.p.AdditionalProperties.Schema, 1}}
			n := g.IntN(2)
			return v.text + pick(g, ".all(", ".exists(") + "k, z, " + g.boolean(inner[n:n+1+g.IntN(2-n)], depth-1) + ")"
		}
	case 19:
		if v, ok := g.pathOf(vars, "array"); ok && kindOf(v.p.Items.Schema) == "string" {
			return pick(g, "sets.contains("+v.text+", ['A', 'b'])", "sets.contains(['A', 'B', 'abc'], "+v.text+")", "sets.intersects("+v.text+", ['A', ''])",
				v.text+" == ['A']", "'A' in "+v.text+" || 'B' in "+v.text)
		}
	}
	return pick(g, "true", "false", "self == self || true")
}
