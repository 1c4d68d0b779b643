package schemagen

// What do projects write as unions, one of several members by a type or by presence? The schemas here have such
// rules over small domains, so that a proof can be held against all objects.

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Union returns the schema of a resource whose spec is a union of members. A type chooses the member, or its presence does. The
// rules have the forms that projects use, over fields with few different values. A field of one name always has the same type, so
// that rules written for one schema fit another.
// The domain of each field is small, so that [Gen.Values] can list most objects, and a test can compare
// the proof with all of them.
func (g *Gen) Union() *props {
	spec := g.unionRecord(1, true)
	root := &props{Type: "object", Properties: map[string]props{"spec": *spec}}
	if g.chance(30) {
		root.Required = []string{"spec"}
	}
	return root
}

// unionFields are the fields of a record, and how many of a hundred records have one.
// A name stands for a type in all schemas: type is the discriminator, a a member, b a number, c a list of
// texts, on a switch, s a text, l a list of objects, m a map, u a union inside, and k an object that
// keeps unknown fields.
var unionFields = []struct {
	name    string
	percent int
}{{"type", 75}, {"a", 60}, {"b", 50}, {"c", 30}, {"on", 25}, {"s", 30}, {"l", 35}, {"m", 15}, {"u", 20}, {"k", 8}}

// unionRecord returns an object of a few of the fields. old reports whether its rules may speak of oldSelf.
// Rules are drawn after the fields, and kept only if they speak of fields that are there.
func (g *Gen) unionRecord(depth int, old bool) *props {
	p := &props{Type: "object", Properties: map[string]props{}}
	for _, f := range unionFields {
		if g.chance(f.percent) && len(p.Properties) < 5 {
			if c := g.unionField(f.name, depth, old); c != nil {
				g.fillDefault(c, 12)
				p.Properties[f.name] = *c
				if c.Default == nil && g.chance(15) {
					p.Required = append(p.Required, f.name)
				}
			}
		}
	}
	if g.chance(10) {
		p.XPreserveUnknownFields = new(true)
	}
	for range g.IntN(4) {
		g.addRule(p, g.recordRule(p, old))
	}
	if g.chance(20) {
		g.unionJunctor(p)
	}
	return p
}

// unionField returns the schema of a field by its name, nil where depth allows none.
func (g *Gen) unionField(name string, depth int, old bool) *props {
	switch name {
	// The discriminator has at most three values, with a member or a rule for each.
	case "type", "kind":
		return &props{Type: "string", Enum: g.someOf("A", "B", "C")}
	// Values are drawn from 0 to 3, with bounds or without.
	case "b", "n":
		p := &props{Type: "integer", Nullable: g.chance(8)}
		if g.chance(30) {
			p.Minimum = new(float64(g.IntN(2)))
		}
		if g.chance(50) {
			p.Maximum = new(float64(1 + g.IntN(3)))
		}
		return p
	case "on":
		return &props{Type: "boolean"}
	// A text of up to three letters, sometimes with an enum.
	case "s", "name":
		p := &props{Type: "string", MaxLength: new(int64(1 + g.IntN(3)))}
		if g.chance(20) {
			p.Enum = g.someOf("x", "y", "zz")
		}
		if g.chance(15) {
			p.MinLength = new(int64(1))
		}
		return p
	// A list of texts, sometimes a set.
	case "c", "values":
		p := &props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: g.unionField("s", depth, false)}, MaxItems: new(int64(1 + g.IntN(3)))}
		p.XListType = pickOne(g, []*string{nil, nil, new("set"), new("atomic")})
		return p
	case "a":
		return g.unionMember(old)
	// A map of up to two numbers.
	case "m":
		return &props{
			Type: "object", MaxProperties: new(int64(1 + g.IntN(2))),
			AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: g.unionField("n", depth, false)},
		}
	// Everything is kept in it, so that unknown fields are tried as well.
	case "k":
		return &props{Type: "object", XPreserveUnknownFields: new(true)}
	case "l":
		return g.unionList(old)
	}
	if depth <= 0 {
		return nil
	}
	return g.unionRecord(depth-1, old)
}

// unionMember draws a member of a union: an object with a number, a text and a switch, and sometimes a
// rule of its own.
func (g *Gen) unionMember(old bool) *props {
	p := &props{Type: "object", Properties: map[string]props{}, Nullable: g.chance(6)}
	for _, sub := range []string{"n", "s", "on"} {
		if g.chance(65) {
			c := g.unionField(sub, 0, false)
			g.fillDefault(c, 15)
			p.Properties[sub] = *c
		}
	}
	if g.chance(25) {
		g.addRule(p, g.memberRule(old))
	}
	return p
}

// unionList draws a list of named objects, sometimes keyed by the name, with up to two rules about its
// items.
func (g *Gen) unionList(old bool) *props {
	item := &props{Type: "object", Properties: map[string]props{}}
	for _, sub := range []string{"name", "kind", "n", "values"} {
		if sub != "name" && g.chance(40) {
			continue
		}
		c := g.unionField(sub, 0, false)
		if sub != "name" {
			g.fillDefault(c, 12)
		}
		item.Properties[sub] = *c
		if c.Default == nil && (sub == "name" || g.chance(25)) {
			item.Required = append(item.Required, sub)
		}
	}
	p := &props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: item}, MaxItems: new(int64(2 + g.IntN(2)))}
	if g.chance(40) {
		p.XListType, p.XListMapKeys = new("map"), []string{"name"}
	}
	for range g.IntN(3) {
		g.addRule(p, g.listRule(old))
	}
	return p
}

// someOf returns some of the words as an enum, at least one.
// The first word is drawn, so that no word is more frequent than others.
func (g *Gen) someOf(words ...string) []apiextensionsv1.JSON {
	first := pickOne(g, words)
	out := []apiextensionsv1.JSON{rawJSON(first)}
	for _, w := range words {
		if w != first && g.chance(70) {
			out = append(out, rawJSON(w))
		}
	}
	return out
}

// fillDefault gives p a default that fits its type, or none.
// An earlier default goes in any case, so that a change may take it away.
func (g *Gen) fillDefault(p *props, percent int) {
	if p.Default = nil; !g.chance(percent) {
		return
	}
	var d any
	switch p.Type {
	case "string":
		if d = pickOne(g, []string{"x", "y"}); len(p.Enum) > 0 {
			p.Default = new(pickOne(g, p.Enum))
			return
		}
	case "integer":
		d = 1
	case "boolean":
		d = g.chance(50)
	case "array":
		d = []any{}
		if p.Items.Schema.Type == "string" && len(p.Items.Schema.Enum) == 0 && g.chance(50) {
			d = []any{"x"}
		}
	default:
		o := map[string]any{}
		if _, ok := p.Properties["n"]; ok && g.chance(50) {
			o["n"] = 1
		}
		d = o
	}
	p.Default = new(rawJSON(d))
}

// addRule adds a rule unless it mentions fields that p lacks, which would not compile.
func (g *Gen) addRule(p *props, text string) {
	if text != "" && declaresFieldsOf(p, text) {
		p.XValidations = append(p.XValidations, apiextensionsv1.ValidationRule{Rule: text})
	}
}

// mentioned finds the fields that a rule mentions, with their owners. A parenthesis after the name makes it a call.
var mentioned = regexp.MustCompile(`(self|oldSelf|)\.\??([a-z]+)\b([^(a-zA-Z]|$)`)

// declaresFieldsOf reports whether the fields that a rule mentions are declared in p, or one or two levels below.
// It reads the rule as text: a name behind a dot is a field, unless a parenthesis makes it a call. A
// field of self must be one of p itself.
func declaresFieldsOf(p *props, text string) bool {
	declared := map[string]bool{}
	var note func(p *props, depth int)
	note = func(p *props, depth int) {
		if depth > 2 {
			return
		}
		if p.Items != nil {
			note(p.Items.Schema, depth+1)
		}
		for name, c := range p.Properties {
			declared[name] = true
			note(&c, depth+1)
		}
	}
	note(p, 0)
	for _, m := range mentioned.FindAllStringSubmatch(text, -1) {
		if !declared[m[2]] || m[1] != "" && !hasProperty(p, m[2]) {
			return false
		}
	}
	return true
}

// drawMember draws a name of a field of p, other than the discriminator.
// A record without members gets a, a name that most other records have.
func (g *Gen) drawMember(p *props) string {
	out := slices.DeleteFunc(slices.Sorted(maps.Keys(p.Properties)), func(name string) bool { return name == "type" })
	if len(out) == 0 {
		return "a"
	}
	return pickOne(g, out)
}

// fillRule writes a rule with members of p for M, N and O, types for T and V, a number for i and a word for w.
// The sign § marks what is filled in, because no rule has it otherwise.
func (g *Gen) fillRule(p *props, texts []string) string {
	types := []string{"'A'", "'B'", "'C'"}
	return strings.NewReplacer(
		"§M", g.drawMember(p), "§N", g.drawMember(p), "§O", g.drawMember(p), "§T", pickOne(g, types), "§V", pickOne(g, types),
		"§i", pickOne(g, []string{"0", "1", "2"}), "§w", pickOne(g, []string{"'x'", "'y'"}),
	).Replace(pickOne(g, texts))
}

// Rules about records, lists of members, and members.
// These are written after the rules of projects in the wild: unions by a type, members that exclude each
// other, lists whose items must differ. The words behind § are those of fillRule.
var (
	recordRules = []string{
		// A type says which member there is.
		"!(has(self.§M) && self.type != §T)", "!(!has(self.§M) && self.type == §T)", "self.type == §T ? has(self.§M) : !has(self.§M)",
		"self.type == §T || self.type == §V ? has(self.§M) : true", "self.type in [§T, §V] || !has(self.§M)", "has(self.type) && self.type == §T ? has(self.§M) : !has(self.§M)",
		"self.?type.orValue('A') != §T || has(self.§M)", "self.type != §T || has(self.§M) && !has(self.§N)",
		// One member of several.
		"has(self.§M) != has(self.§N)", "has(self.§M) || has(self.§N)", "!(has(self.§M) && has(self.§N))", "has(self.§M) ? !has(self.§N) : has(self.§N)",
		"[has(self.§M), has(self.§N), has(self.§O)].exists_one(x, x)", "[has(self.§M), has(self.§N)].filter(x, x == true).size() == 1",
		"(has(self.§M) ? 1 : 0) + (has(self.§N) ? 1 : 0) + (has(self.§O) ? 1 : 0) <= 1", "has(self.§M) ? has(self.§N) : true", "[has(self.§M), has(self.§N)].all(x, !x || has(self.§O))",
		// Contents of a member.
		"!(has(self.on) && self.on) || has(self.§M)", "!has(self.a) || !has(self.a.on) || !self.a.on || has(self.§M)", "has(self.a) && has(self.a.n) ? self.a.n <= §i : true",
		"self.b >= §i || (has(self.on) && self.on)", "!has(self.b) || self.b != §i || has(self.§M)", "!has(self.s) || self.s.startsWith(§w)", "!(has(self.s) && self.s == §w && has(self.§M))",
		"!has(self.b) || !has(self.a) || !has(self.a.n) || self.a.n <= self.b", "has(self.c) ? self.c.size() == §i : true", "!has(self.c) || self.c.all(x, x != §w) || has(self.§M)",
		"has(self.c) && self.c.exists(x, x == §w) ? self.type == §T : true", "!has(self.m) || self.m.all(k, k in ['x', 'y'])", "has(self.m) && 'x' in self.m ? has(self.§M) : true",
		"!has(self.a) || self.a.?s.orValue('x') == §w", "self.?a.?n.orValue(0) + (has(self.b) ? self.b : 0) <= 2",
		// Lists of members.
		"has(self.l) ? self.l.all(x, !has(x.kind) || x.kind != §T) : true", "!has(self.l) || self.l.size() == 0 || self.l[0].kind == §T", "self.type == §T ? self.l.exists(x, has(x.n)) : true",
		"!has(self.l) || self.l.exists_one(x, x.kind == §T) || has(self.§M)", "!has(self.l) || self.l.filter(x, has(x.kind) && x.kind == self.type).size() <= 1",
		"has(self.l) && has(self.c) ? self.l.size() + self.c.size() <= 3 : true", "!has(self.l) || self.l.all(x, has(self.on) ? (self.on || has(x.n)) : !has(x.n))",
		"!has(self.l) || (self.l.size() > 0 ? self.l[0].values.size() : 0) + (self.l.size() > 1 ? self.l[1].values.size() : 0) <= 2",
		"!has(self.l) || !has(self.c) || self.l.all(x, x.name in self.c)", "!has(self.l) || self.l.map(x, x.name).all(y, y != §w)",
	}
	recordUpdates = []string{
		"has(self.§M) == has(oldSelf.§M)", "!has(oldSelf.§M) || has(self.§M)", "self == oldSelf", "self.type == oldSelf.type", "!has(oldSelf.b) || has(self.b) && self.b >= oldSelf.b",
		"!has(self.§M) || !has(oldSelf.§M) || self.§M == oldSelf.§M", "has(oldSelf.§M) || !has(self.§M) || has(self.§N)", "oldSelf.type != §T || self.type == §T",
		"!has(oldSelf.a) || !has(oldSelf.a.n) || has(self.a) && has(self.a.n) && self.a.n >= oldSelf.a.n", "has(self.a) && has(oldSelf.a) ? self.a == oldSelf.a : true",
		"!has(oldSelf.l) || has(self.l) && oldSelf.l.all(x, self.l.exists(y, y.name == x.name))", "!has(oldSelf.c) || !has(self.c) || oldSelf.c.all(x, x in self.c)",
	}
	listRules = []string{
		"self.all(x, x.kind == §T ? has(x.n) : true)", "self.all(x, x.kind == §T || x.kind == §V ? x.values.size() == 1 : true)", "!self.exists(x, has(x.n) && self.size() != 1)",
		"self.filter(x, has(x.n) && x.n == §i).size() <= 1", "self.exists_one(x, x.kind == §T)", "self.exists(x, x.kind == §T)", "self.all(x, self.exists_one(y, x.name == y.name))",
		"self.all(x, self.exists_one(y, x.name == y.name && (has(x.n) ? has(y.n) && x.n == y.n : !has(y.n))))", "self.all(x, has(x.kind) && x.kind == §T ? has(x.values) && size(x.values) > 0 : true)",
		"self.all(x, !has(x.n) || self.all(y, !has(y.n) || x.n == y.n))", "self.all(x, x.kind == self[0].kind)", "size(self) > 0 ? self[0].name == §w : true", "self.all(x, x.name in ['x', 'y'])",
		"self.all(x, self.filter(y, has(y.n) && has(x.n) && y.n == x.n).size() < 2)", "self.map(x, x.name).exists(y, y == §w) || self.size() < 2",
		"self.all(x, !(x.kind == §T && has(x.n)) || x.n >= §i)", "!self.exists(x, self.exists(y, x.name == y.name && x.kind != y.kind))",
	}
	listUpdates = []string{"self == oldSelf", "oldSelf.all(x, self.exists(y, y.name == x.name))", "self.size() >= oldSelf.size()", "oldSelf.all(x, x in self)", "self.all(x, oldSelf.exists(y, x == y))"}
	memberRules = []string{
		"has(self.n) || has(self.s)", "!has(self.n) || self.n <= §i", "has(self.on) && self.on ? has(self.n) : !has(self.s)", "has(self.s) != has(self.n)", "!has(self.s) || self.s != §w",
		"has(self.n) && has(self.on) ? self.n == §i || !self.on : true", "self.n >= §i", "self.?s.orValue('') != §w",
	}
	memberUpdates = []string{"self == oldSelf", "!has(oldSelf.n) || has(self.n)", "has(self.n) && has(oldSelf.n) ? self.n >= oldSelf.n : true", "!has(self.s) || self.?s == oldSelf.?s"}
)

// recordRule draws a rule about a record, or two that are joined. With old, some rules are about updates.
func (g *Gen) recordRule(p *props, old bool) string {
	if old && g.chance(20) {
		return g.fillRule(p, recordUpdates)
	}
	text := g.fillRule(p, recordRules)
	switch g.IntN(12) {
	case 0:
		return "(" + text + ") && (" + g.fillRule(p, recordRules) + ")"
	case 1:
		return "(" + text + ") || (" + g.fillRule(p, recordRules) + ")"
	case 2:
		return "has(self." + g.drawMember(p) + ") ? (" + text + ") : (" + g.fillRule(p, recordRules) + ")"
	}
	return text
}

// listRule draws a rule about a list as a whole, whose items have a name, and perhaps a kind, a number
// and values.
func (g *Gen) listRule(old bool) string {
	if old && g.chance(20) {
		return pickOne(g, listUpdates)
	}
	return g.fillRule(&props{}, listRules)
}

// memberRule draws a rule about one member, which has a number, a text and a switch at most.
func (g *Gen) memberRule(old bool) string {
	if old && g.chance(25) {
		return pickOne(g, memberUpdates)
	}
	return g.fillRule(&props{}, memberRules)
}

// unionJunctor says by the schema alone which members there may be.
// It replaces all junctors that were there.
func (g *Gen) unionJunctor(p *props) {
	demand := func() props {
		b := props{Required: []string{g.drawMember(p)}}
		if _, ok := p.Properties["type"]; ok && g.chance(30) {
			b.Properties = map[string]props{"type": {Enum: g.someOf("A", "B", "C")}}
		}
		return b
	}
	p.OneOf, p.AnyOf, p.Not, p.AllOf = nil, nil, nil, nil
	switch g.IntN(4) {
	case 0:
		p.OneOf = []props{demand(), demand()}
	case 1:
		p.AnyOf = []props{demand(), demand()}
	case 2:
		p.Not = new(demand())
	default:
		p.OneOf = []props{demand(), {Not: new(demand())}}
	}
}
