package contain

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice.dev/tools/draws"
)

// drawGuardedRule draws a condition about x, an item or an object. With guards it draws the same condition with some has() put in.
func drawGuardedRule(r, guards *rand.Rand, x string, depth int) string {
	if depth == 0 {
		use := []string{
			x + ".a == 'v'", "size(" + x + ".a) > 1", x + ".a in ['v', 'x']", x + ".r == " + x + ".a", "(" + x + ".a == 'v' || " + x + ".a.startsWith('x'))",
			"(" + x + ".a == 'v' || " + x + ".r == 'v')", x + ".r == 'v'", "size(self.l) < 2", "true",
		}[r.IntN(9)]
		field, form := []string{"a", "a", "a", "r"}[r.IntN(4)], []string{"(!has(%s.%s) || %s)", "(has(%s.%s) && %s)", "(has(%s.%s) || %s)", "(!has(%s.%s) && %s)"}[r.IntN(12)%4%(2+2*r.IntN(2))]
		if guards.IntN(2) == 0 {
			return fmt.Sprintf(form, x, field, use)
		}
		return use
	}
	a, b := drawGuardedRule(r, guards, x, depth-1), drawGuardedRule(r, guards, x, depth-1)
	y := string(rune('t' + depth))
	switch r.IntN(9) {
	case 0:
		return "(" + a + " && " + b + ")"
	case 1:
		return "(" + a + " || " + b + ")"
	case 2:
		return "!(" + a + ")"
	case 3, 4:
		if guards.IntN(2) == 0 {
			return "(" + a + " && has(" + x + ".a) ? " + b + " : true)"
		}
		return "(" + a + " ? " + b + " : true)"
	case 5:
		return "(" + a + " ? " + b + " : " + drawGuardedRule(r, guards, x, depth-1) + ")"
	}
	return "self.l." + []string{"all", "exists", "exists_one"}[r.IntN(3)] + "(" + y + ", " + drawGuardedRule(r, guards, y, depth-1) + ")"
}

// TestRulesThatWereGivenGuards holds the answers about rules that now ask whether a field is there against the API server's code: nothing is
// proven of a rule that refuses an object that the old one allows.
func TestRulesThatWereGivenGuards(t *testing.T) {
	contained, tried := 0, 0
	for seed := range draws.Seeds(3000) {
		r := rand.New(rand.NewPCG(seed, 41))
		object := "properties: {r: {type: string, maxLength: 4}, a: {type: string, maxLength: 4" + []string{"", "", ", format: byte"}[r.IntN(3)] + "}"
		spec := object + ", l: {type: array, maxItems: 3, items: {type: object" + []string{"", ", nullable: true"}[r.IntN(2)] + ", " + object + "}}}}"
		rule := func(guards uint64) string {
			zero := rand.New(rand.NewPCG(seed, guards))
			if guards == 0 {
				return drawGuardedRule(rand.New(rand.NewPCG(seed, 42)), rand.New(noGuards{}), "self", 3)
			}
			return drawGuardedRule(rand.New(rand.NewPCG(seed, 42)), zero, "self", 3)
		}
		before, after := rule(0), rule(43)
		with := func(rule string) string {
			return "{type: object, properties: {spec: {type: object, required: [l], " + spec + ", x-kubernetes-validations: [{rule: " + fmt.Sprintf("%q", rule) + "}]}}}"
		}
		old, next := parseSchema(t, with(before)), parseSchema(t, with(after))
		if before == after || Decide(t.Context(), side(t, old), side(t, next), Options{Namespaced: true}).Verdict != Contained {
			continue
		}
		contained++
		was, is := validator(t, old), validator(t, next)
		draw := rand.New(rand.NewPCG(seed, 44))
		for range 40 {
			obj := map[string]any{"apiVersion": "example.com/v1", "kind": "Example", "metadata": map[string]any{"name": "x", "namespace": "default"}, "spec": drawGuardedValue(draw, 0)}
			if ok, _ := fine(t, was, obj); !ok {
				continue
			}
			tried++
			if ok, why := fine(t, is, obj); !ok {
				t.Fatalf("seed %d: %s is refused: %s\n%s\n%s\n%s", seed, show(obj), why, before, after, spec)
			}
		}
	}
	t.Logf("%d contained, %d objects", contained, tried)
	if least := draws.Count(3000); contained*12 < least || tried < least/2 {
		t.Errorf("%d contained, %d objects: the test says little", contained, tried)
	}
}

// noGuards is a source by which nothing is guarded.
type noGuards struct{}

func (noGuards) Uint64() uint64 { return 1<<64 - 1 }

func drawGuardedValue(r *rand.Rand, depth int) any {
	out := map[string]any{}
	for _, name := range []string{"r", "a"} {
		if r.IntN(3) > 0 {
			out[name] = []string{"v", "x", "+/+/"[:r.IntN(2)*4]}[r.IntN(3)]
		}
	}
	if depth == 0 {
		items := []any{}
		for range r.IntN(4) {
			if r.IntN(5) == 0 {
				items = append(items, nil)
			} else {
				items = append(items, drawGuardedValue(r, 1))
			}
		}
		out["l"] = items
	}
	return out
}

// A guard in a condition makes a rule weaker, and its negation stronger.
func TestAGuardBelowANegation(t *testing.T) {
	of := func(rule string) Side {
		return side(t, parseSchema(t, "{type: object, required: [b], properties: {a: {type: string}, b: {type: string}}, x-kubernetes-validations: [{rule: "+fmt.Sprintf("%q", rule)+"}]}"))
	}
	for form, want := range map[string]Verdict{"GUARDED ? self.b != 'y' : true": Contained, "!(GUARDED ? self.b == 'y' : true)": NotContained} {
		guarded := func(by string) Side {
			return of(strings.Replace(form, "GUARDED", "(self.b != 'x'"+by+")", 1))
		}
		if got := Decide(t.Context(), guarded(""), guarded(" && has(self.a)"), Options{Namespaced: true}); got.Verdict != want {
			t.Errorf("%s: %v, want %v", form, got.Verdict, want)
		}
	}
}

// has() is an error of a text or a number that CEL cannot read, and false of null.
func TestGuardsThatAreErrors(t *testing.T) {
	of := func(item, condition string) Side {
		return side(t, parseSchema(t, "{type: object, properties: {l: {type: array, maxItems: 3, items: {type: object"+item+
			"}, x-kubernetes-validations: [{rule: 'self.all(i, "+condition+" ? size(self) < 9 : true)'}]}}}"))
	}
	for item, want := range map[string]bool{
		", properties: {a: {type: string}}":                                       true,
		", properties: {a: {type: string}}, nullable: true":                       true,
		", properties: {a: {type: string, format: byte}}":                         false,
		", properties: {a: {type: integer}}":                                      false,
		", properties: {a: {x-kubernetes-int-or-string: true}}":                   false,
		", additionalProperties: {type: string, format: byte}":                    false,
		", additionalProperties: {type: string, format: date-time}":               false,
		", additionalProperties: {type: integer}":                                 false,
		", additionalProperties: {type: object, properties: {b: {type: string}}}": true,
	} {
		got := Decide(t.Context(), of(item, "size(self) < 4"), of(item, "size(self) < 4 && has(i.a)"), Options{Namespaced: true})
		if (got.Verdict == Contained) != want {
			t.Errorf("%s: %v", item, got.Verdict)
		}
	}
}

// A selection from an optional value is no error where the field is missing.
func TestGuardsOfOptionals(t *testing.T) {
	of := func(guard string) Side {
		return side(t, parseSchema(t, "{type: object, properties: {spec: {type: object, required: [c], properties: {a: {type: object, properties: {b: {type: string, maxLength: 9}}}, c: {type: string, maxLength: 9}}, "+
			"x-kubernetes-validations: [{rule: '"+guard+"self.?a.b != optional.of(self.c.lowerAscii())'}]}}}"))
	}
	if got := Decide(t.Context(), of(""), of("has(self.?a.b) && "), Options{Namespaced: true}); got.Verdict == Contained {
		t.Error(got.Verdict)
	}
}
