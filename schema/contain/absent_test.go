package contain

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

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
		keeps := some("", "", "", ", x-kubernetes-preserve-unknown-fields: true")
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
	if least := draws.Count(3000); byForm*20 < least || contained*12 < least || tried < least {
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
	if r.IntN(4) == 0 {
		out["nu"] = "v"
	}
	return out
}
