package rules_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/cel-go/cel"

	"sluice.dev/feature"
	"sluice.dev/feature/rules"
	"sluice.dev/tools/draws"
)

// ruleWriter draws rules about an object with the numbers a, f and g, an object o with f and h, and a list of objects with f and g.
type ruleWriter struct {
	*rand.Rand
	item bool // the rule is about an item x of the list
}

func (w *ruleWriter) oneOf(texts ...string) string { return texts[w.IntN(len(texts))] }

// drawReference returns a place with a number, in one of the forms of CEL.
func (w *ruleWriter) drawReference() string {
	if w.item {
		return w.oneOf("x.f", "x.g", "x['f']", "self.a")
	}
	return w.oneOf("self.a", "self.f", "self.f", "self.g", "self.__in__", "self['f']", "self.o.f", "self.o.h")
}

func (w *ruleWriter) drawOptional() string {
	if w.item {
		return w.oneOf("x.?f", "x[?'f']", "x.?g")
	}
	return w.oneOf("self.?f", "self[?'f']", "self.?__in__", "self.?g", "self.?o.f", "self.?o.?f", "self.?o.?h")
}

func (w *ruleWriter) drawNumber(depth int) string {
	switch n := w.IntN(7); {
	case n == 0 || depth == 0:
		return w.drawReference()
	case n == 1:
		return fmt.Sprintf("%s.orValue(%d)", w.drawOptional(), w.IntN(3))
	case n == 2:
		return fmt.Sprintf("(%s ? %s : %s)", w.drawTruth(depth-1), w.drawNumber(depth-1), w.drawNumber(depth-1))
	case n == 3:
		return fmt.Sprintf("(%s + %s)", w.drawNumber(depth-1), w.drawNumber(depth-1))
	case n == 4 && !w.item:
		return "self.list.size()"
	}
	return fmt.Sprint(w.IntN(3))
}

func (w *ruleWriter) drawTruth(depth int) string {
	if depth == 0 {
		return w.drawLeaf()
	}
	part := func() string { return w.drawTruth(depth - 1) }
	switch w.IntN(10) {
	case 0:
		return "!(" + part() + ")"
	case 1, 2:
		return fmt.Sprintf("(%s && %s)", part(), part())
	case 3, 4:
		return fmt.Sprintf("(%s || %s)", part(), part())
	case 5:
		return fmt.Sprintf("(%s ? %s : %s)", part(), part(), part())
	case 6:
		return fmt.Sprintf("((%s) %s (%s))", part(), w.oneOf("==", "!="), part())
	case 7:
		return fmt.Sprintf("(%s %s %s)", w.drawNumber(depth-1), w.oneOf("==", "!=", ">", "<="), w.drawNumber(depth-1))
	case 8:
		if !w.item {
			w.item = true
			defer func() { w.item = false }()
			return fmt.Sprintf("self.list.%s(x, %s)", w.oneOf("all", "exists", "exists_one"), part())
		}
	}
	return w.drawLeaf()
}

func (w *ruleWriter) drawLeaf() string {
	switch w.IntN(8) {
	case 0:
		return w.oneOf("true", "false")
	case 1:
		return w.drawOptional() + ".hasValue()"
	case 2:
		if !w.item {
			return w.oneOf("self.o == {'f': 1}", "self.o != {}", "has(self.o)", "self.list == []", "{'f': 1} in self.list", "has(self.list)")
		}
	case 3, 4:
		return fmt.Sprintf("%s %s %d", w.drawReference(), w.oneOf(">", "=="), w.IntN(3))
	}
	if w.item {
		return w.oneOf("has(x.f)", "has(x.g)")
	}
	return w.oneOf("has(self.f)", "has(self.g)", "has(self.__in__)", "has(self.o.f)", "has(self.o.h)")
}

// drawObject draws what rules are about.
func (w *ruleWriter) drawObject() map[string]any {
	some := func(names ...string) map[string]any {
		out := map[string]any{}
		for _, name := range names {
			if w.IntN(3) > 0 {
				out[name] = w.IntN(3)
			}
		}
		return out
	}
	out := some("a", "f", "g", "in")
	if w.IntN(4) > 0 {
		out["o"] = some("f", "h")
	}
	if w.IntN(4) > 0 {
		list := make([]any, w.IntN(3))
		for i := range list {
			list[i] = some("f", "g")
		}
		out["list"] = list
	}
	return out
}

// loseField removes the field from the object, or from some items of its list, and reports whether there was one.
func (w *ruleWriter) loseField(object map[string]any, path string) bool {
	before, lost := 0, []map[string]any{object}
	name := "f"
	switch path {
	case "in":
		name = "in"
	case "o.f":
		o, _ := object["o"].(map[string]any)
		lost = []map[string]any{o}
	case "list[*].f":
		lost = nil
		list, _ := object["list"].([]any)
		for _, item := range list {
			if m, _ := item.(map[string]any); w.IntN(3) > 0 {
				lost = append(lost, m)
			}
		}
	}
	for _, m := range lost {
		before += len(m)
		delete(m, name)
		before -= len(m)
	}
	return before > 0
}

// TestFatesAreThoseOfCEL: a rule that held is evaluated by CEL again without the field. If its fate is Apart or Holds, it holds; if it is
// Violated, it does not.
func TestFatesAreThoseOfCEL(t *testing.T) {
	env, err := cel.NewEnv(cel.Variable("self", cel.DynType), cel.OptionalTypes())
	if err != nil {
		t.Fatal(err)
	}
	told := map[feature.Fate]int{}
	for seed := range draws.Seeds(40_000) {
		w := &ruleWriter{Rand: rand.New(rand.NewPCG(seed, 1))}
		rule := w.drawTruth(1 + w.IntN(3))
		compiled, issues := env.Compile(rule)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", rule, issues.Err())
		}
		program, err := env.Program(compiled)
		if err != nil {
			t.Fatal(err)
		}
		holds := func(object map[string]any) bool {
			out, _, err := program.Eval(map[string]any{"self": object})
			return err == nil && out.Value() == true
		}
		text := w.oneOf("f", "in", "o.f", "list[*].f")
		path, err := feature.ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		fate := rules.Without(rule, path)
		for range 12 {
			object := w.drawObject()
			if !holds(object) || !w.loseField(object, text) {
				continue
			}
			told[fate]++
			if after := holds(object); after && fate == feature.Violated || !after && fate <= feature.Holds {
				t.Errorf("seed %d: %s without %s: fate %d, and it is %v for %v", seed, rule, text, fate, after, object)
			}
		}
	}
	for _, fate := range []feature.Fate{feature.Apart, feature.Holds, feature.Open, feature.Violated} {
		if told[fate] < 20 {
			t.Errorf("%d objects lose a part of a rule with fate %d", told[fate], fate)
		}
	}
}
