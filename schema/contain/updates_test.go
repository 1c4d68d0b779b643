package contain

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/tools/draws"
)

// Updates that the old schema allows and the new one refuses, though both schemas have the rule and accept both states.
func TestUpdatesThatAreRefused(t *testing.T) {
	const rule = `properties: {a: {type: string}, b: {type: string}, x: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf"}]}}`
	const list = `type: array, maxItems: 1, x-kubernetes-list-type: map, items: {type: object, required: [a, b], ` + rule + `}`
	const keyed = `type: array, maxItems: 2, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, required: [a], ` + rule + `}`
	for _, c := range []struct {
		name          string
		old, new      string // of spec
		before, after string
		unknown       bool // no candidate has the keys that it takes
	}{
		{
			"items are found by fewer keys",
			list + ", x-kubernetes-list-map-keys: [a, b]", list + ", x-kubernetes-list-map-keys: [a]",
			`[{"a": "a", "b": "b", "x": "x"}]`, `[{"a": "a", "b": "c", "x": "y"}]`, true,
		},
		{
			"the old value is no longer an optional one",
			"type: string, x-kubernetes-validations: [{rule: '!(dyn(oldSelf) == dyn(self))', optionalOldSelf: true}]",
			"type: string, x-kubernetes-validations: [{rule: '!(dyn(oldSelf) == dyn(self))'}]",
			`"x"`, `"x"`, false,
		},
		{
			"what is left out is filled in with less",
			"type: object, properties: {a: {type: integer, default: 5}}, x-kubernetes-validations: [{rule: self.a >= oldSelf.a}]",
			"type: object, properties: {a: {type: integer, default: 1}}, x-kubernetes-validations: [{rule: self.a >= oldSelf.a}]",
			`{"a": 3}`, `{}`, false,
		},
		{
			"what never changes is filled in",
			"type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}}",
			"type: object, properties: {a: {type: string, default: standard, x-kubernetes-validations: [{rule: self == oldSelf}]}}",
			`{}`, `{"a": "x"}`, false,
		},
		{
			"the object around what never changes is filled in",
			"type: object, properties: {o: {type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}}}}",
			"type: object, properties: {o: {type: object, default: {a: standard}, properties: {a: {type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}}}}",
			`{}`, `{"o": {"a": "x"}}`, false,
		},
		{
			"what is filled in is filled in with more",
			"type: object, properties: {o: {type: object, default: {}, properties: {a: {type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}}}}",
			"type: object, properties: {o: {type: object, default: {}, properties: {a: {type: string, default: standard, x-kubernetes-validations: [{rule: self == oldSelf}]}}}}",
			`{}`, `{"o": {"a": "x"}}`, false,
		},
		{
			"a field of an item is filled in", list + ", x-kubernetes-list-map-keys: [a, b]",
			strings.Replace(list, "x: {", "x: {default: standard, ", 1) + ", x-kubernetes-list-map-keys: [a, b]",
			`[{"a": "a", "b": "b"}]`, `[{"a": "a", "b": "b", "x": "y"}]`, false,
		},
		{
			"a list is filled in", list + ", x-kubernetes-list-map-keys: [a, b]", list + ", x-kubernetes-list-map-keys: [a, b], default: [{a: a, b: b, x: x}]",
			"", `[{"a": "a", "b": "b", "x": "y"}]`, true,
		},
		{
			"a key is filled in", keyed, strings.Replace(keyed, "b: {type: string}", "b: {type: string, default: b}", 1),
			`[{"a": "a", "x": "x"}]`, `[{"a": "a", "b": "b", "x": "y"}]`, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := func(s string) *apiextensionsv1.JSONSchemaProps {
				return parseSchema(t, "{type: object, properties: {spec: {"+s+"}}}")
			}
			object := func(s string) map[string]any {
				if s == "" {
					return resource(t, "{}")
				}
				return resource(t, `{"spec": `+s+`}`)
			}
			old, new := spec(c.old), spec(c.new)
			for _, x := range []struct {
				schema  *apiextensionsv1.JSONSchemaProps
				refused bool
			}{{old, false}, {new, true}} {
				for _, s := range []string{c.before, c.after} {
					if ok, why := fine(t, validator(t, x.schema), object(s)); !ok && s != "{}" {
						t.Fatalf("%s is not accepted: %s", s, why)
					}
				}
				r, err := validator(t, x.schema).Update(t.Context(), object(c.after), object(c.before), true)
				if err != nil || r.Refused() != x.refused {
					t.Fatalf("the update is as follows, want refused %v: %v, %v", x.refused, r.Errors, err)
				}
			}
			r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
			if r.Verdict == Contained || r.Verdict == Unknown && !c.unknown {
				t.Errorf("%v:\n%s", r.Verdict, strings.Join(told(r.Gaps), "\n"))
			}
		})
	}
}

// A transition rule is shown at work though another change refuses every object.
func TestTransitionRulesBesideAnotherChange(t *testing.T) {
	const item = "type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string, enum: [one]}, x: {type: integer, minimum: 0, maximum: 9"
	old := parseSchema(t, "{type: object, required: [spec], properties: {spec: {type: object, properties: {l: {"+item+"}}}}}}}}")
	new := parseSchema(t, "{type: object, required: [spec, more], properties: {more: {type: string}, spec: {type: object, properties: {l: {"+item+", x-kubernetes-validations: [{rule: self >= oldSelf}]}}}}}}}}")
	r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
	if !slices.ContainsFunc(r.Gaps, func(g Gap) bool {
		return g.Harm == RefusedTransition && g.Verdict == NotContained && g.Path.String() == ".spec.l[*].x" && g.Witness.Old != nil
	}) {
		t.Errorf("no update shows the rule:\n%s", strings.Join(told(r.Gaps), "\n"))
	}
}

// An unchanged rule that compares whole values is about what it does not mention as well.
func TestUnchangedRulesThatSeeOtherValues(t *testing.T) {
	const distinct = `type: array, maxItems: 3, x-kubernetes-validations: [{rule: "self.all(x, self.exists_one(y, x == y))"}], items: {type: object, properties: {k: {type: string}, v: {type: string`
	const equal = `type: object, x-kubernetes-validations: [{rule: "!has(self.a) || !has(self.b) || dyn(self.a) == dyn(self.b)"}], properties: {a: {%s}, b: {%[1]s}}`
	of := func(s string) string { return strings.ReplaceAll(equal, "%[1]s", s) }
	words := func(typ string) string {
		s := "type: array, maxItems: 3, items: {type: string, maxLength: 9}, x-kubernetes-list-type: " + typ
		return strings.Replace(of(s), "%s", s, 1)
	}
	times := func(format string) string {
		s := "type: object, properties: {t: {type: string, maxLength: 30" + format + "}}"
		return strings.Replace(of(s), "%s", s, 1)
	}
	pair := func(more string) string {
		return strings.NewReplacer("{%s}", "{type: object, properties: {t: {type: string}"+more+"}}", "{%[1]s}", "{type: object, properties: {t: {type: string}, u: {type: string}}}").Replace(equal)
	}
	for _, c := range []struct{ name, old, new, value string }{
		{"a new field is filled in", pair(""), pair(", u: {type: string, default: z}"), `{"a": {"t": "x"}, "b": {"t": "x"}}`},
		{"a field of the items is filled in", distinct + "}}}", distinct + ", default: z}}}", `[{"k": "a"}, {"k": "a", "v": "z"}]`},
		{"a set becomes a list with an order", words("set"), words("atomic"), `{"a": ["x", "y"], "b": ["y", "x"]}`},
		{
			"a time becomes a text", times(", format: date-time"), times(""),
			`{"a": {"t": "2020-01-01T00:00:00Z"}, "b": {"t": "2020-01-01T01:00:00+01:00"}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, new := parseSchema(t, "{type: object, properties: {spec: {"+c.old+"}}}"), parseSchema(t, "{type: object, properties: {spec: {"+c.new+"}}}")
			obj := resource(t, `{"spec": `+c.value+`}`)
			if ok, why := fine(t, validator(t, old), obj); !ok {
				t.Fatalf("the old schema refuses it: %s", why)
			}
			if ok, _ := fine(t, validator(t, new), obj); ok {
				t.Fatal("the new schema accepts it")
			}
			if r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true}); r.Verdict == Contained {
				t.Error("called contained")
			}
		})
	}
}

// What no old object holds makes no difference to an unchanged rule, wherever it looks.
func TestUnchangedRulesWhereNullIsAllowed(t *testing.T) {
	const spec = `type: object, x-kubernetes-validations: [{rule: "self == oldSelf"}], properties: {a: {type: string%s}, o: {type: object, properties: {b: {type: integer%[1]s}}}, l: {type: array, items: {type: string%[1]s}}}`
	whole := func(more string) Side {
		return side(t, parseSchema(t, "{type: object, properties: {spec: {"+strings.ReplaceAll(strings.Replace(spec, "%s", more, 1), "%[1]s", more)+"}}}"))
	}
	if r := Decide(t.Context(), whole(""), whole(", nullable: true"), Options{Namespaced: true}); r.Verdict != Contained {
		t.Errorf("%v:\n%s", r.Verdict, strings.Join(told(r.Gaps), "\n"))
	}
	if r := Decide(t.Context(), whole(", nullable: true"), whole(""), Options{Namespaced: true}); r.Verdict == Contained {
		t.Error("nulls are dropped, and it is called contained")
	}
}

// Updates are tried between objects that the other new rules take, and from objects that they do not take.
func TestUpdatesBesideOtherRules(t *testing.T) {
	const ref = `r: {type: object, properties: {group: {type: string}}%s}`
	for _, c := range []struct{ name, old, new string }{
		{
			"another rule refuses the simplest objects", "required: [r], properties: {s: {type: string, default: a, enum: [a, b]}, " + strings.Replace(ref, "%s", "", 1) + "}",
			"required: [r], properties: {s: {type: string, default: a, enum: [a, b], x-kubernetes-validations: [{rule: self == oldSelf}]}, " +
				strings.Replace(ref, "%s", ", x-kubernetes-validations: [{rule: has(self.group) && self.group == 'g'}]", 1) + "}",
		},
		{
			"what is stored has another type now", "properties: {b: {type: object, properties: {geo: {type: object}}, required: [geo]}}",
			"properties: {b: {type: object, properties: {geo: {type: string}}, required: [geo]}}, x-kubernetes-validations: [{rule: has(self.b) == has(oldSelf.b)}]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := func(s string) Side {
				return side(t, parseSchema(t, "{type: object, properties: {spec: {type: object, "+s+"}}}"))
			}
			gaps := Decide(t.Context(), of(c.old), of(c.new), Options{Namespaced: true}).Gaps
			if !slices.ContainsFunc(gaps, func(g Gap) bool { return g.Harm == RefusedTransition && g.Witness != nil }) {
				t.Errorf("no update was found: %v", told(gaps))
			}
		})
	}
}

// An update shows a rule only if that rule is what refuses it, and if the old schema allows it.
func TestUpdatesShowTheRuleThatRefusesThem(t *testing.T) {
	of := func(rules string) Side {
		return side(t, parseSchema(t, "{type: object, properties: {spec: {type: object, properties: {a: {type: integer, enum: [1, 2]}, b: {type: integer, enum: [1, 2]}}, "+
			"required: [a, b], x-kubernetes-validations: ["+rules+"]}}}"))
	}
	both := of("{rule: self.a == oldSelf.a, message: a stays}, {rule: self.b == oldSelf.b, message: b stays}")
	shown := map[string]bool{}
	for _, g := range Decide(t.Context(), of("{rule: 'true'}"), both, Options{Namespaced: true}).Gaps {
		if g.Witness == nil || len(g.Witness.Errors) == 0 {
			t.Errorf("a rule that nothing shows: %v", told([]Gap{g}))
			continue
		}
		for _, e := range g.Witness.Errors {
			shown[e[max(0, len(e)-len("x stays")):]] = true
		}
	}
	if !shown["a stays"] || !shown["b stays"] {
		t.Errorf("shown: %v", shown)
	}
	for _, g := range Decide(t.Context(), of("{rule: self.a == oldSelf.a}"), of("{rule: self.a >= oldSelf.a, message: grows}, {rule: self.a == oldSelf.a}"), Options{Namespaced: true}).Gaps {
		if g.Witness != nil {
			t.Errorf("the old schema refuses this update too: %v", told([]Gap{g}))
		}
	}
}

// Rules about pairs of items are tried with items that differ in few fields.
func TestRulesAboutPairsOfItems(t *testing.T) {
	const list = `type: array, maxItems: 9, items: {type: object, required: [name], properties: {name: {type: string, maxLength: 9}, space: {type: string, maxLength: 9}, section: {type: string, minLength: 1, maxLength: 9}, port: {type: integer, minimum: 1}}}`
	const distinct = `{rule: "self.all(x, self.exists_one(y, x.name == y.name && x.?section.orValue('') == y.?section.orValue('') && x.?port.orValue(0) == y.?port.orValue(0)))"}`
	const loose = `{rule: "self.all(x, self.all(y, x.name == y.name ? (has(x.section) || has(x.port)) == (has(y.section) || has(y.port)) : true))"}`
	const strict = `{rule: "self.all(x, self.all(y, x.name == y.name && x.?space.orValue('') == y.?space.orValue('') ? has(x.section) == has(y.section) && has(x.port) == has(y.port) : true))"}`
	for _, c := range []struct{ name, old, new string }{
		{"both rules are new", "", ", x-kubernetes-validations: [" + distinct + ", " + strict + "]"},
		{"one is stricter", ", x-kubernetes-validations: [" + distinct + ", " + loose + "]", ", x-kubernetes-validations: [" + distinct + ", " + strict + "]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := func(s string) Side {
				return side(t, parseSchema(t, "{type: object, properties: {spec: {"+list+s+"}}}"))
			}
			for _, g := range Decide(t.Context(), of(c.old), of(c.new), Options{Namespaced: true}).Gaps {
				if g.Witness == nil {
					t.Errorf("%s: %s", g.Detail, g.Reason)
				}
			}
		})
	}
}

// updateGuards and updateBodies make rules about updates of an object with a.q, a.num and b.c, which is at self: guard ? body : true.
var (
	updateGuards = []string{
		"true", "has(oldSelf.a) && has(self.a)",
		"has(oldSelf.b) && has(oldSelf.b.c) && oldSelf.b.c.exists(x, x.t == 'R' && x.s == 'True')",
		"has(oldSelf.b) && has(oldSelf.b.c) && oldSelf.b.c.exists(x, x.t == 'R' && x.s == 'True') && has(self.b) && has(self.b.c) && self.b.c.exists(x, x.t == 'R' && x.s == 'True')",
		"!has(oldSelf.b) || !has(oldSelf.b.c) || oldSelf.b.c.all(x, x.s != 'True')",
		"has(oldSelf.a) && has(oldSelf.a.num) && oldSelf.a.num > 1",
	}
	updateBodies = []string{
		"true", "has(self.a) == has(oldSelf.a)", "!has(oldSelf.a) || !has(oldSelf.a.q) || has(self.a) && has(self.a.q)",
		"has(self.a) && has(oldSelf.a) ? has(self.a.q) == has(oldSelf.a.q) && (!has(self.a.q) || self.a.q == oldSelf.a.q) : true",
		"!has(oldSelf.a) || !has(oldSelf.a.num) || has(self.a) && has(self.a.num) && self.a.num >= oldSelf.a.num",
		"!has(oldSelf.a) || !has(self.a) || self.a == oldSelf.a", "!has(self.b) || has(oldSelf.b)",
	}
)

// TestRulesAboutUpdatesByDraw draws two rules about updates, of the whole object or of a part of it, and tries every update between small
// objects with the API server's own code. If the new rule refuses one that the old rule allows, an update shows it. If the library says
// that all updates are allowed, none is refused.
func TestRulesAboutUpdatesByDraw(t *testing.T) {
	var values []string
	for _, a := range []string{"", `"a": {}`, `"a": {"q": "x"}`, `"a": {"q": "y"}`, `"a": {"num": 1}`, `"a": {"num": 2}`, `"a": {"q": "x", "num": 2}`} {
		for _, b := range []string{"", `"b": {}`, `"b": {"c": [{"t": "R", "s": "True"}]}`, `"b": {"c": [{"t": "R", "s": "False"}]}`, `"b": {"c": [{"t": "R"}]}`} {
			values = append(values, "{"+strings.Trim(a+", "+b, ", ")+"}")
		}
	}
	undecided, missed, refused := 0, 0, 0
	for seed := range draws.Seeds(300) {
		r := rand.New(rand.NewPCG(seed, 29))
		draw := func() string {
			return updateGuards[r.IntN(len(updateGuards))] + " ? " + updateBodies[r.IntN(len(updateBodies))] + " : true"
		}
		oldRule, newRule, whole := draw(), draw(), r.IntN(2) == 0
		schemaOf := func(rule string) *apiextensionsv1.JSONSchemaProps {
			object := `{type: object, x-kubernetes-validations: [{rule: "` + rule + `"}], properties: {` +
				`a: {type: object, properties: {q: {type: string, maxLength: 9}, num: {type: integer}}}, b: {type: object, properties: {c: {` +
				`type: array, maxItems: 9, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [t], items: {type: object, required: [t], properties: {` +
				`t: {type: string, maxLength: 9}, s: {type: string, enum: ["True", "False"]}}}}}}}}`
			if !whole {
				object = "{type: object, properties: {spec: " + object + "}}"
			}
			return parseSchema(t, object)
		}
		objectOf := func(value string) map[string]any {
			if !whole {
				value = `{"spec": ` + value + `}`
			}
			return resource(t, value)
		}
		old, new := schemaOf(oldRule), schemaOf(newRule)
		was, is := validator(t, old), validator(t, new)
		harmed := ""
		for _, before := range values {
			for _, after := range values {
				allowed, err := was.Update(t.Context(), objectOf(after), objectOf(before), true)
				if err != nil {
					t.Fatal(err)
				}
				if allowed.Refused() || harmed != "" {
					continue
				}
				if r, err := is.Update(t.Context(), objectOf(after), objectOf(before), true); err != nil {
					t.Fatal(err)
				} else if r.Refused() {
					harmed = before + " to " + after
				}
			}
		}
		got := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
		switch {
		case got.Verdict == Contained && harmed != "":
			t.Errorf("seed %d: %s\nto %s\nrefuses %s, and is called safe", seed, oldRule, newRule, harmed)
		case got.Verdict == Unknown:
			undecided++
			if harmed != "" {
				missed++
				t.Logf("seed %d: undecided: %s\nto %s\nrefuses %s", seed, oldRule, newRule, harmed)
			}
		case got.Verdict == NotContained:
			refused++
		}
	}
	n := draws.Count(300)
	t.Logf("%d pairs of rules: %d refuse more, %d undecided, of which %d refuse more", n, refused, undecided, missed)
	if refused == 0 || undecided > n/4 || missed > n/15 {
		t.Error("too little is decided")
	}
}
