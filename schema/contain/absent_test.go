package contain

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/tools/draws"
)

// drawNewFieldRule draws a condition about x, an item or an object, of which the field nu is new.
func drawNewFieldRule(r *rand.Rand, x string, depth int) string {
	atoms := []string{
		"has(" + x + ".nu)", "!has(" + x + ".nu)", "has(" + x + ".a)", "!has(" + x + ".a)", x + ".nu == 'v'", x + ".a == 'v'", "size(" + x + ".nu) > 3",
		"has(self.l)", "has(self.o) && has(self.o.nu)", "self.r == 'v'", "has(self.q.nu)", "true", "false",
	}
	if depth == 0 {
		return atoms[r.IntN(len(atoms))]
	}
	a, b := drawNewFieldRule(r, x, depth-1), drawNewFieldRule(r, x, depth-1)
	y := string(rune('t' + depth))
	const list = "self.l"
	guard := ""
	if r.IntN(4) > 0 {
		guard = "!has(" + list + ") || "
	}
	switch r.IntN(8) {
	case 0:
		return "(" + a + " && " + b + ")"
	case 1, 2:
		return "(" + a + " || " + b + ")"
	case 3:
		return "!(" + a + ")"
	case 4:
		return "(" + a + " ? " + b + " : " + drawNewFieldRule(r, x, depth-1) + ")"
	case 5:
		return "(" + guard + list + ".all(" + y + ", " + drawNewFieldRule(r, y, depth-1) + "))"
	case 6:
		return "(" + guard + list + "." + []string{"exists", "exists_one"}[r.IntN(2)] + "(" + y + ", " + drawNewFieldRule(r, y, depth-1) + "))"
	}
	return a
}

// TestRulesAboutNewFields holds the answers about rules that were added together with the fields of which they speak against the API server's
// code: nothing is proven of them that an old object breaks.
func TestRulesAboutNewFields(t *testing.T) {
	byForm, contained, tried := 0, 0, 0
	for seed := range draws.Seeds(3000) {
		r := rand.New(rand.NewPCG(seed, 21))
		some := func(options ...string) string { return options[r.IntN(len(options))] }
		object := func(more string) string {
			return "{type: object, required: [r], properties: {r: {type: string, maxLength: 3}, a: {type: string, maxLength: 3}, l: {type: array" + some("", ", nullable: true") + ", maxItems: 2, items: {type: object" +
				some("", ", nullable: true") + ", properties: {a: {type: string, maxLength: 3}" + more + "}}}, o: {type: object, properties: {a: {type: string, maxLength: 3}" + more +
				"}}, q: {type: object, properties: {a: {type: string, maxLength: 3}" + more + "}}" + more + "}"
		}
		keeps := some("", ", x-kubernetes-preserve-unknown-fields: true")
		seedOfRest := r.Uint64()
		r = rand.New(rand.NewPCG(seedOfRest, 1))
		oldSpec := object("") + keeps + "}"
		r = rand.New(rand.NewPCG(seedOfRest, 1))
		newField := ", nu: {type: string, maxLength: 9" + []string{"", "", "", ", default: v", ", default: w"}[seed%5] + "}"
		rule := drawNewFieldRule(rand.New(rand.NewPCG(seed, 22)), "self", 3)
		newSpec := object(newField) + keeps + ", x-kubernetes-validations: [{rule: " + fmt.Sprintf("%q", rule) + "}]}"
		old, next := parseSchema(t, "{type: object, properties: {spec: "+oldSpec+"}}"), parseSchema(t, "{type: object, properties: {spec: "+newSpec+"}}")
		ofNoField := false
		res := Decide(t.Context(), side(t, old), side(t, next), Options{Namespaced: true, Trace: func(e Event) {
			ofNoField = ofNoField || strings.Contains(e.Text, string(ruleOfNoField))
		}})
		if ofNoField {
			byForm++
		}
		if res.Verdict == Contained {
			contained++
		}
		if res.Verdict != Contained && !ofNoField {
			continue
		}
		before, after := validator(t, old), validator(t, next)
		draw := rand.New(rand.NewPCG(seed, 23))
		for range 25 {
			obj := map[string]any{"apiVersion": "example.com/v1", "kind": "Example", "metadata": map[string]any{"name": "x", "namespace": "default"}, "spec": drawNewFieldValue(draw, 0)}
			if ok, _ := fine(t, before, obj); !ok {
				continue
			}
			tried++
			result, err := after.Create(t.Context(), obj)
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Errors) > 0 && (res.Verdict == Contained || strings.Contains(result.Errors[0].Error(), "spec: ")) {
				t.Fatalf("seed %d: %s is refused: %v\nrule %s\n%s\n%s", seed, show(obj), result.Errors, rule, oldSpec, newSpec)
			}
		}
	}
	t.Logf("%d by form, %d contained, %d objects", byForm, contained, tried)
	if least := draws.Count(3000); byForm*20 < least || contained*20 < least || tried < least {
		t.Errorf("%d by form, %d contained, %d objects: the test says little", byForm, contained, tried)
	}
}

// drawNewFieldValue draws an object that lacks some fields.
func drawNewFieldValue(r *rand.Rand, depth int) any {
	out := map[string]any{"r": []string{"v", "x"}[r.IntN(2)]}
	if depth > 0 {
		delete(out, "r")
	}
	if r.IntN(2) == 0 {
		out["a"] = []string{"v", "x"}[r.IntN(2)]
	}
	if depth > 0 {
		return out
	}
	for _, name := range []string{"o", "q"} {
		if r.IntN(2) == 0 {
			out[name] = drawNewFieldValue(r, depth+1)
		}
	}
	switch r.IntN(4) {
	case 0:
	case 1:
		out["l"] = nil
	default:
		items := []any{}
		for range r.IntN(3) {
			if r.IntN(2) == 0 {
				items = append(items, nil)
			} else {
				items = append(items, drawNewFieldValue(r, depth+1))
			}
		}
		out["l"] = items
	}
	if r.IntN(2) == 0 {
		out["nu"] = []string{"v", "longer"}[r.IntN(2)]
	}
	return out
}

// TestImmutableObjectsThatGainFields holds the answers about objects that never change against the API server's code: fields and defaults come,
// go and change, and no update that the old schema allows is refused where the answer is that none is.
func TestImmutableObjectsThatGainFields(t *testing.T) {
	contained, refused, updates := 0, 0, 0
	for seed := range draws.Seeds(1500) {
		r := rand.New(rand.NewPCG(seed, 31))
		field := func(name, typ string, values ...string) (string, string) {
			side := func(present bool) string {
				if !present {
					return ""
				}
				return name + ": {type: " + typ + []string{"", "", ", default: " + values[0], ", default: " + values[1]}[r.IntN(4)] + "}, "
			}
			if r.IntN(4) == 0 { // new
				return "", side(true)
			}
			same := side(true)
			if r.IntN(3) == 0 {
				return same, side(true)
			}
			return same, same
		}
		var old, next [4]string
		for i, f := range []string{"a", "b", "c", "d"} {
			if i%2 == 0 {
				old[i], next[i] = field(f, "integer", "1", "2")
			} else {
				old[i], next[i] = field(f, "string", "p", "q")
			}
		}
		of := func(f [4]string) string {
			return "{type: object, x-kubernetes-validations: [{rule: self == oldSelf}], properties: {" + f[0] + f[1] +
				"o: {type: object, properties: {" + f[2] + "z: {type: string}}}, l: {type: array, items: {type: object, properties: {" + f[3] + "z: {type: string}}}}}}"
		}
		before, after := parseSchema(t, "{type: object, properties: {spec: "+of(old)+"}}"), parseSchema(t, "{type: object, properties: {spec: "+of(next)+"}}")
		res := Decide(t.Context(), side(t, before), side(t, after), Options{Namespaced: true, Only: func(g *Gap) bool { return g.Harm == RefusedTransition }})
		if res.Verdict != Contained {
			refused++
			continue
		}
		contained++
		was, is := validator(t, before), validator(t, after)
		spec := func() map[string]any {
			inner := func(name string, value any) map[string]any {
				m := map[string]any{}
				if r.IntN(2) == 0 {
					m[name] = value
				}
				return m
			}
			m := map[string]any{}
			for name, value := range map[string]any{"a": int64(1 + r.IntN(2)), "b": []string{"p", "q"}[r.IntN(2)], "o": inner("c", int64(1+r.IntN(2))), "l": []any{inner("d", []string{"p", "q"}[r.IntN(2)])}} {
				if r.IntN(3) > 0 {
					m[name] = value
				}
			}
			return m
		}
		for range 30 {
			first := map[string]any{"apiVersion": "example.com/v1", "kind": "Example", "metadata": map[string]any{"name": "x", "namespace": "default"}, "spec": spec()}
			created, err := was.Create(t.Context(), first)
			if err != nil || created.Refused() {
				continue
			}
			next := runtime.DeepCopyJSON([]map[string]any{first, created.Stored}[r.IntN(2)])
			if fields, ok := next["spec"].(map[string]any); ok && r.IntN(2) == 0 { // what has a default may be left out
				delete(fields, []string{"a", "b"}[r.IntN(2)])
			}
			if ok, _ := fine(t, was, next); !ok { // what only the new schema knows is not the old clients'
				continue
			}
			if u, err := was.Update(t.Context(), next, created.Stored, true); err != nil || u.Refused() {
				continue
			}
			updates++
			if u, err := is.Update(t.Context(), next, created.Stored, true); err != nil || u.Refused() {
				t.Fatalf("seed %d: %s over %s is refused: %v %v\n%s\n%s", seed, show(next), show(created.Stored), u.Errors, err, showSchema(before), showSchema(after))
			}
		}
	}
	t.Logf("%d contained, %d not, %d updates", contained, refused, updates)
	if least := draws.Count(1500); contained*10 < least || refused*10 < least || updates < least {
		t.Errorf("%d contained, %d not, %d updates: the test says little", contained, refused, updates)
	}
}

// TestFieldsOfOneItemAreNotThoseOfAnother: what a rule has asked of one item, or of a field with a similar name, says nothing of others.
func TestFieldsOfOneItemAreNotThoseOfAnother(t *testing.T) {
	const list, fields = "l: {type: array, maxItems: 3, items: {type: object, properties: {a: {type: object, properties: {c: {type: integer}%s}}}}}",
		"a/b: {type: integer}, a: {type: object, properties: {b: {type: object, properties: {z: {type: integer}%s}}}}"
	for rule, schema := range map[string]string{
		"!has(self.l) || self.l.all(x, !has(x.a) || self.l.all(y, !has(y.a.nu)))":    list,
		"!has(self.l) || self.l.all(x, !has(x.a) || !self.l.exists(y, has(y.a.nu)))": list,
		"!has(self.a) || !has(self.a__slash__b) || !has(self.a.b.nu)":                fields,
		"!has(self.l) || self.l.all(x, !has(x.a)) || self.l.all(x, !has(x.a.nu))":    list,
		"!has(self.l) || self.l.all(x, has(x.a)) && self.l.all(x, !has(x.a.nu))":     list,
		"!has(self.l) || self.l.all(x, !has(x.a) || self.l.all(x, !has(x.a.nu)))":    list,
		"!has(self.l) || self.l.exists(x, has(x.a)) || self.l.all(x, has(x.a.nu))":   list,
	} {
		of := func(more, rules string) string {
			return "{type: object, properties: {spec: {type: object, properties: {" + strings.Replace(schema, "%s", more, 1) + "}" + rules + "}}}"
		}
		old, next := parseSchema(t, of("", "")), parseSchema(t, of(", nu: {type: integer}", `, x-kubernetes-validations: [{rule: "`+rule+`"}]`))
		if r := Decide(t.Context(), side(t, old), side(t, next), Options{Namespaced: true}); r.Verdict == Contained {
			t.Errorf("%s is said to be true of all old objects", rule)
		}
	}
}
