package celrule

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	ours "sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/tools/draws"
)

// macroGen makes rules about lists of small items that relate items with each other and with fields outside: guards with
// has(), ternaries, nested macros and counts, over values so few that most cases come up.
type macroGen struct {
	*gen
	fields map[string]string // the fields of an item and of self, by name, and their types
	item   props
	list   string // the list, as an expression
}

// schema makes an object with a list, and fields of the same names and types as its items have, in random variants.
func (g *macroGen) schema() props {
	g.fields = map[string]string{"a": "string", "b": "integer", "c": "boolean"}
	if g.chance(30) {
		g.fields["d"] = "string"
	}
	object := func(defaults bool) props {
		p := props{Type: "object", Properties: map[string]props{}}
		for _, name := range []string{"a", "b", "c", "d"} {
			typ := g.fields[name]
			if typ == "" {
				continue
			}
			c := props{Type: typ}
			switch {
			case defaults && g.chance(15):
				c.Default = raw(map[string]string{"string": `"x"`, "integer": `0`, "boolean": `true`}[typ])
			case g.chance(8):
				c.Nullable = true
			case g.chance(15):
				p.Required = append(p.Required, name)
			}
			p.Properties[name] = c
		}
		return p
	}
	p := object(true)
	p.Required = nil
	g.item = object(true)
	list := props{Type: "array", Items: &itemsOf{Schema: &g.item}, MaxItems: new(int64(4))}
	if c := g.item.Properties["a"]; g.chance(20) && !c.Nullable && c.Default == nil {
		g.item.Required = append(g.item.Required, "a")
		list.XListType, list.XListMapKeys = new("map"), []string{"a"}
	}
	if g.list = "self"; g.chance(35) {
		return list // the rule stands at the list itself
	}
	g.list = "self.l"
	p.Properties["l"] = list
	words := props{Type: "string"}
	p.Properties["w"] = props{Type: "array", Items: &itemsOf{Schema: &words}, MaxItems: new(int64(4))}
	return p
}

// value makes a value of few different ones.
func (g *macroGen) small(p *props) any {
	switch {
	case p.Nullable && g.chance(20):
		return nil
	case p.Type == "string":
		return pick[any](g.gen, "x", "x", "y")
	case p.Type == "integer":
		return pick[any](g.gen, int64(0), int64(0), int64(1))
	case p.Type == "boolean":
		return g.chance(50)
	case p.Type == "array":
		out := []any{}
		for range pick(g.gen, 0, 1, 1, 2, 2, 3) {
			out = append(out, g.small(p.Items.Schema))
		}
		return out
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		c := p.Properties[name]
		if g.chance(60) {
			out[name] = g.small(&c)
		}
	}
	for _, name := range p.Required {
		if out[name] == nil {
			c := p.Properties[name]
			out[name] = g.small(&c)
		}
	}
	return out
}

// atom makes a statement about one or two of the variables; self is one.
func (g *macroGen) atom(vars []string) string {
	x, y := pick(g.gen, vars...), pick(g.gen, vars...)
	name := pick(g.gen, "a", "b", "c")
	f, h := x+"."+name, y+"."+name
	switch g.IntN(14) {
	case 0, 1, 2:
		return "has(" + f + ")"
	case 3, 4:
		return "!has(" + f + ")"
	case 5, 6, 7:
		return f + pick(g.gen, " == ", " == ", " != ") + h
	case 8, 9:
		return x + ".c"
	case 10:
		return fmt.Sprintf("%s.b %s %d", x, pick(g.gen, "<", "<=", "==", ">"), g.IntN(2))
	case 11:
		return x + ".a == " + quote(pick(g.gen, "x", "y"))
	case 12:
		if g.list != "self" {
			return x + ".a in self.w"
		}
	}
	return x + ".?" + name + pick(g.gen, " == ", " != ") + y + ".?" + name
}

func (g *macroGen) guarded(vars []string) string {
	x, y := pick(g.gen, vars...), pick(g.gen, vars...)
	name := pick(g.gen, "a", "b", "c")
	f, h := x+"."+name, y+"."+name
	switch g.IntN(5) {
	case 0:
		return "has(" + f + ") && has(" + h + ") && " + f + " == " + h
	case 1:
		return "has(" + f + ") && has(" + h + ") && " + h + " == " + f + " && has(" + x + ".b)"
	case 2:
		return "!has(" + f + ") || !has(" + h + ") || " + f + " == " + h
	case 3:
		return "has(" + f + ") ? (has(" + h + ") ? " + f + " == " + h + " : " + g.atom(vars) + ") : !has(" + h + ")"
	}
	return "has(" + f + ") && " + f + " == " + h
}

func (g *macroGen) statement(vars []string, depth int) string {
	if depth > 0 {
		switch g.IntN(10) {
		case 0, 1:
			return "(" + g.statement(vars, depth-1) + " && " + g.statement(vars, depth-1) + ")"
		case 2:
			return "(" + g.statement(vars, depth-1) + " || " + g.statement(vars, depth-1) + ")"
		case 3, 4:
			return "(" + g.statement(vars, depth-1) + " ? " + g.statement(vars, depth-1) + " : " + g.statement(vars, depth-1) + ")"
		case 5:
			return "!(" + g.statement(vars, depth-1) + ")"
		case 6, 7, 8:
			return g.overList(vars, depth)
		}
	}
	if g.chance(30) {
		return "(" + g.guarded(vars) + ")"
	}
	return g.atom(vars)
}

func (g *macroGen) overList(vars []string, depth int) string {
	if len(vars) > 3 {
		return g.atom(vars)
	}
	x := string("xyzuv"[len(vars)])
	inner := append(slices.Clip(vars), x)
	if g.chance(30) && len(vars) > 0 {
		inner = []string{vars[len(vars)-1], x}
	}
	body := g.statement(inner, depth-1)
	switch g.IntN(5) {
	case 0, 1:
		body = g.guarded(inner)
	case 2: // nothing but another macro
		body = g.overList(inner, depth-1)
	}
	switch g.IntN(7) {
	case 0, 1:
		return g.list + ".all(" + x + ", " + body + ")"
	case 2:
		return g.list + ".exists(" + x + ", " + body + ")"
	case 3:
		return g.list + ".exists_one(" + x + ", " + body + ")"
	case 4:
		return g.list + ".filter(" + x + ", " + body + ")" + pick(g.gen, ".all(", ".exists(", ".exists_one(") + x + ", " + g.statement(inner, depth-1) + ")"
	}
	return g.list + ".filter(" + x + ", " + body + ").size() " + pick(g.gen, "< 2", "<= 1", "== 1", "> 1", "== 0", "> 0", "!= 1")
}

// sum makes a statement about a sum over the list.
func (g *macroGen) sum() string {
	part := pick(g.gen, "%s.b", "%s.?b.orValue(0)", "(has(%s.b) ? %[1]s.b : 1)", "%s.a.size()", "(%s.b - 1)")
	sum := g.list + ".map(x, " + fmt.Sprintf(part, "x") + ").sum()"
	if g.chance(50) {
		var parts []string
		for i := range 2 + g.IntN(3) {
			item := fmt.Sprintf("%s[%d]", g.list, i)
			parts = append(parts, fmt.Sprintf("(%s.size() > %d ? %s : %d)", g.list, pick(g.gen, i, i, i, 0), fmt.Sprintf(part, item), pick(g.gen, 0, 0, 0, 1, 9)))
		}
		sum = strings.Join(parts, " + ")
	}
	if g.chance(20) {
		return fmt.Sprintf("%d %s %s", g.IntN(5), pick(g.gen, ">=", ">"), sum)
	}
	return sum + pick(g.gen, " <= ", " < ") + fmt.Sprint(g.IntN(5))
}

// compareMacros makes a schema, rules with macros and values, and fails where the formula contradicts upstream.
func compareMacros(t testing.TB, seed uint64, n *tally) {
	g := &macroGen{gen: &gen{Rand: rand.New(rand.NewPCG(seed, 2))}}
	p := g.schema()
	node := toNode(t, p)
	for range 6 {
		var vars []string
		if p.Type == "object" {
			vars = []string{"self"}
		}
		text := g.overList(vars, 1+g.IntN(3))
		if g.chance(20) {
			text = g.sum()
		}
		if len(text) > 500 {
			continue
		}
		n.rules++
		r, err := Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		j := newJudge(t, p, text, false)
		if j == nil {
			continue
		}
		n.compiled++
		f, fails := Translate(r, Scope{Spine: node, Checker: reChecker{}}), Failing(r, Scope{Spine: node, Checker: reChecker{}})
		clear := true
		for range 40 {
			v := g.small(&p)
			if !j.valid(v) {
				continue
			}
			n.values++
			why := j.refuses(v)
			if reflect.DeepEqual(v, ours.AsStored(v)) && !strings.Contains(why, "cost") {
				compareFailure(t, fails, text, v, why, n)
			}
			got, neg := logic.Eval(f, v, reChecker{}), logic.Eval(logic.Not(f), v, reChecker{})
			switch {
			case strings.Contains(why, "cost"):
			case got+neg != 2:
				t.Fatalf("seed %d: rule %s\non %s\nformula %v, negation %v", seed, text, toJSON(v), got, neg)
			case got == logic.Unsure:
				n.unsure++
				clear = false
			case (got == logic.Yes) != (why == ""):
				t.Fatalf("seed %d: rule %s\nof %s\non %s\nformula says %v, upstream says %q", seed, text, toJSON(p), toJSON(v), got, why)
			}
		}
		if clear {
			n.clear++
		}
	}
}

// TestMacrosAgreeWithUpstream holds rules that relate the items of a list against upstream's evaluation.
func TestMacrosAgreeWithUpstream(t *testing.T) {
	var n tally
	for seed := range draws.Seeds(60) {
		compareMacros(t, seed, &n)
	}
	t.Logf("%+v", n)
	if n.clear*4 < n.compiled {
		t.Errorf("only %d of %d rules are always decided: the test says little", n.clear, n.compiled)
	}
}

// TestMacrosWithGuards has the rules of which a formula said too much, each on values that show it.
func TestMacrosWithGuards(t *testing.T) {
	const object = `{"type":"object","properties":{"tls":{"type":"boolean"},"routes":{"type":"array","maxItems":4,"items":{
		"type":"object","properties":{"host":{"type":"string"},"on":{"type":"boolean"}}}}}}`
	const list = `{"type":"array","maxItems":4,"items":{"type":"object","properties":{"b":{"type":"integer"},"s":{"type":"string"}}}}`
	const words = `{"type":"object","properties":{"l":{"type":"array","maxItems":4,"items":{"type":"object","properties":{"v":{"type":"array","maxItems":3,"items":{"type":"string"}}}}}}}`
	const nested = `{"type":"object","properties":{"s":{"type":"string"},"l":` + list + `}}`
	for _, c := range []struct{ schema, rule, values string }{
		// That tls is there is implied by tls being true, and does not imply it.
		{
			object, "self.routes.all(r, has(self.tls) ? (self.tls || has(r.host)) : !has(r.host))",
			`[{"tls":false,"routes":[{}]},{"tls":true,"routes":[{}]},{"routes":[{}]},{"routes":[{"host":"x"}]},{"tls":false,"routes":[{"host":"x"}]}]`,
		},
		{
			object, "self.routes.exists(r, has(self.tls) && has(r.on) && r.on == self.tls)",
			`[{"tls":false,"routes":[{"on":false}]},{"tls":false,"routes":[{"on":true}]},{"routes":[{"on":true}]},{"tls":true,"routes":[{"on":true},{}]}]`,
		},
		{
			object, "self.routes.exists(r, self.tls && has(r.host) || has(self.tls) && has(r.on))",
			`[{"tls":false,"routes":[{"on":true}]},{"tls":false,"routes":[{"host":"x"}]},{"routes":[{"on":true}]},{"tls":true,"routes":[{"host":"x"}]}]`,
		},
		// A guard makes of an item without the key one that is not counted, and no error.
		{
			list, "self.all(x, self.filter(y, has(y.b) && has(x.b) && y.b == x.b).size() < 2)",
			`[[],[{}],[{},{}],[{"b":1},{}],[{"b":1},{"b":1}],[{"b":1},{"b":1},{}]]`,
		},
		{list, "self.all(x, self.filter(y, y.b == x.b).size() < 2)", `[[],[{}],[{"b":1},{}],[{"b":1},{"b":1}],[{"b":1},{"b":2}]]`},
		{list, "self.all(x, self.filter(y, has(y.s) && y.s == x.s).size() < 2)", `[[{}],[{"s":""},{}],[{"s":""},{"s":"a"}]]`},
		// What a statement needs that is not understood: an item for in, for exists, and for a filter that leaves some.
		{
			words, "self.l.all(x, self.l.filter(y, y.v.exists(w, w in x.v)).size() == 1)",
			`[{"l":[]},{"l":[{"v":[]}]},{"l":[{"v":["a"]}]},{"l":[{"v":["a"]},{"v":["a"]}]},{"l":[{"v":["a"]},{"v":["b"]}]}]`,
		},
		{
			words, "self.l.all(x, self.l.filter(y, y.v.exists(w, w in x.v) || y.v.size() == 0).size() >= 1)",
			`[{"l":[{"v":[]}]},{"l":[{"v":["a"]}]},{"l":[{"v":["a"]},{"v":[]}]}]`,
		},
		{
			words, "self.l.all(x, self.l.filter(y, y.v.exists(w, w in x.v)).size() >= 0)",
			`[{"l":[{"v":[]}]},{"l":[{"v":["a"]}]},{"l":[{"v":["a"]},{"v":["b"]}]}]`,
		},
		{
			words, "self.l.exists(x, x.v.exists(w, w in x.v) && self.l.exists(y, y.v.all(w, w in x.v)))",
			`[{"l":[{"v":[]}]},{"l":[{"v":["a"]}]},{"l":[{"v":["a"]},{"v":["b"]}]},{"l":[]}]`,
		},
		// Of a statement of which nothing but bounds is known, these hold no further than what was granted.
		{
			nested, "self.l.exists(x, has(x.s) ? self.l.filter(y, has(y.b) && has(x.b) && y.b == x.b).size() == 0 : x.?s == self.?s)",
			`[{"l":[{"s":"a"}]},{"l":[{"s":"a"},{"s":"b"}]},{"l":[{"s":"a","b":1},{"s":"b"}]},{"l":[{"b":1}]}]`,
		},
	} {
		var p props
		if err := json.Unmarshal([]byte(c.schema), &p); err != nil {
			t.Fatal(err)
		}
		j := newJudge(t, p, c.rule, false)
		if j == nil {
			t.Errorf("%s: upstream does not compile it", c.rule)
			continue
		}
		f := Translate(parse(t, c.rule), Scope{Spine: node(t, c.schema), Checker: reChecker{}})
		values, _ := decode(t, c.values).([]any)
		if len(values) == 0 {
			t.Errorf("%s is no list of values", c.values)
		}
		for _, v := range values {
			why := j.refuses(v)
			if got := logic.Eval(f, v, reChecker{}); got != logic.Unsure && (got == logic.Yes) != (why == "") {
				t.Errorf("%s on %s: the formula says %v, upstream %q", c.rule, toJSON(v), got, why)
			}
		}
	}
}

func FuzzMacrosAgreeWithUpstream(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		var n tally
		compareMacros(t, seed, &n)
	})
}

// What a guard says of one variable says nothing of another one that hides it.
func TestAGuardOfAHiddenVariableGuardsNothing(t *testing.T) {
	const object = `{"type":"object","required":["l","m"],"properties":{"l":{"type":"array","items":{"type":"string"}},"m":{"type":"array","items":{"type":"string"}}}}`
	for rule, never := range map[string]bool{
		"self.l.all(x, !isURL(x) || self.m.all(y, url(x).getHost() == y))":   true,
		"self.l.all(x, !isURL(x) || self.m.all(x, url(x).getHost() == 'a'))": false,
	} {
		f := Failing(parse(t, rule), Scope{Spine: node(t, object), Checker: reChecker{}})
		if got := logic.Eval(f, decode(t, `{"l":["/a"],"m":["x"]}`), reChecker{}) == logic.No; got != never {
			t.Errorf("%s: never an error: %v, want %v", rule, got, never)
		}
	}
}
