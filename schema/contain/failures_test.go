package contain

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
)

// failureGen draws rules whose evaluation can be an error, and objects of few different values.
type failureGen struct{ *rand.Rand }

func (g failureGen) pick(of ...string) string { return of[g.IntN(len(of))] }

var (
	failureInts    = []any{int64(-1), int64(0), int64(1), int64(3), int64(9), int64(1) << 62}
	failureStrings = []any{"", "1", "1.5", "x", "a,b", "1h", "2020-01-01T00:00:00Z", "http://a:80/b?c=d", "10.0.0.1", "10.0.0.0/8", "1.2.3", "5Gi", "true", "3000000000000000000000"}
)

// number draws an expression that is a number, and an error for some objects.
func (g failureGen) number(depth int) string {
	if depth == 0 {
		return g.pick("self.a", "self.k", "self.k", "self.a", "self.l[0]", "self.l.size()", "self.s.size()")
	}
	sub := func() string { return g.number(depth - 1) }
	switch g.IntN(5) {
	case 0:
		return fmt.Sprintf(g.pick("(100 / %s)", "(%s %% 4)", "(-%s)", "(%s + 1)", "(%s * 9223372036854775807)", "(7 %% %s)", "int(string(%s))"), sub())
	case 1:
		return fmt.Sprintf("(%s %s %s)", sub(), g.pick("+", "-", "*", "/", "%"), sub())
	case 2:
		return g.pick("int(self.s)", "int(duration(self.s).getSeconds())", "timestamp(self.s).getFullYear()", "quantity(self.s).asInteger()", "quantity(self.s).sign()",
			"cidr(self.s).prefixLength()", "ip(self.s).family()", "semver(self.s).major()", "url(self.s).getHost().size()", "self.s.substring(1).size()",
			"self.s.split(',')[1].size()", "self.m['x']", "int(double(self.s))", "self.l.max()", "self.s.charAt(2).size()", "self.l.filter(x, x > 1)[0]")
	}
	return sub()
}

func (g failureGen) condition(depth int) string {
	if depth > 0 {
		sub := func() string { return g.condition(depth - 1) }
		switch g.IntN(6) {
		case 0:
			return "(" + sub() + g.pick(" && ", " || ") + sub() + ")"
		case 1:
			return "!(" + sub() + ")"
		case 2:
			return "(" + sub() + " ? " + sub() + " : " + sub() + ")"
		case 3:
			return g.pick("(has(self.k) ? ", "(isQuantity(self.s) ? ", "(isURL(self.s) ? ", "(self.k != 0 ? ", "(self.l.size() > 0 ? ", "('x' in self.m ? ") + sub() + " : " + g.pick("true", "false") + ")"
		case 4:
			return g.pick("self.l.all(x, ", "self.l.exists(x, ", "self.m.all(x, ") + g.pick("100 / self.k > 1", "1 < 2", sub()) + ")"
		}
	}
	switch g.IntN(6) {
	case 0:
		return g.pick("has(self.k)", "has(self.s)", "self.s == 'x'", "self.s.startsWith('1')", "bool(self.s)", "self.s.matches('^[0-9]+$')")
	case 1:
		return g.pick("quantity(self.s).isLessThan(quantity('2'))", "cidr('10.0.0.0/8').containsIP(self.s)", "ip(self.s).isLoopback()", "semver(self.s).isLessThan(semver('2.0.0'))",
			"duration(self.s) < duration('2h')", "timestamp(self.s) < timestamp('2021-01-01T00:00:00Z')", "url(self.s).getPort() == '80'", "quantity(self.s).isInteger()")
	}
	return g.number(g.IntN(2)) + " " + g.pick("<", "<=", "==", "!=", ">") + " " + g.pick("0", "1", "3", "10", g.number(0))
}

// schema draws a schema for the objects, without the rule.
func (g failureGen) schema() string {
	var required []string
	for _, name := range []string{"a", "k", "s", "l", "m"} {
		if g.IntN(3) > 0 {
			required = append(required, name)
		}
	}
	return fmt.Sprintf("type: object, required: [%s], properties: {a: {type: integer%s}, k: {type: integer%s}, s: {type: string%s}, "+
		"l: {type: array, items: {type: integer}%s}, m: {type: object, additionalProperties: {type: integer}}}", strings.Join(required, ", "),
		g.pick("", ", minimum: 0", ", maximum: 3"), g.pick("", ", minimum: 1", ", default: 0"), g.pick("", "", ", minLength: 2", ", maxLength: 3", ", enum: ['1', '1.5', x]"), g.pick("", ", minItems: 1"))
}

func (g failureGen) spec() map[string]any {
	spec := map[string]any{}
	value := func(name string, v any) {
		if g.IntN(4) > 0 {
			spec[name] = v
		}
	}
	value("a", failureInts[g.IntN(len(failureInts))])
	value("k", failureInts[g.IntN(len(failureInts))])
	value("s", failureStrings[g.IntN(len(failureStrings))])
	list := []any{}
	for range g.IntN(3) {
		list = append(list, failureInts[g.IntN(len(failureInts))])
	}
	value("l", list)
	value("m", map[string]any{g.pick("x", "y"): int64(1)})
	return spec
}

// TestRulesThatAreErrorsForStoredObjects adds rules that can be errors, and stores objects of few different values under the old schema. If
// one of them is stuck, the gap says so or leaves it open.
func TestRulesThatAreErrorsForStoredObjects(t *testing.T) {
	g := failureGen{rand.New(rand.NewPCG(7, 8))}
	stuck, shown, open, tolerated := 0, 0, 0, 0
	for range draws.Count(2000) {
		base, rule := g.schema(), g.condition(2)
		old := parseSchema(t, "{type: object, properties: {spec: {"+base+"}}}")
		new := parseSchema(t, fmt.Sprintf("{type: object, properties: {spec: {%s, x-kubernetes-validations: [{rule: %q}]}}}", base, rule))
		r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
		before, after := validator(t, old), validator(t, new)
		var found map[string]any
		for range 100 {
			obj := map[string]any{
				"apiVersion": "example.com/v1", "kind": "Example", "metadata": map[string]any{"name": "example", "namespace": "default"}, "spec": g.spec(),
			}
			if isStuck(t, before, after, obj) {
				found = obj
				break
			}
		}
		i := slices.IndexFunc(r.Gaps, func(gap Gap) bool { return gap.Keyword == keywordRules })
		switch {
		case found != nil && (i < 0 || r.Gaps[i].Verdict == NotContained && r.Gaps[i].Worst < Stuck):
			t.Errorf("%s with the rule %q: %s is stuck, and the gaps say %+v", base, rule, show(found), r.Gaps)
		case found != nil && r.Gaps[i].Witness != nil && r.Gaps[i].Witness.Stuck:
			shown++
		case i >= 0 && r.Gaps[i].Worst == Stuck && !r.Gaps[i].Witness.Stuck:
			if open++; found == nil {
				t.Logf("open: %q of %s", rule, base)
			} else {
				t.Logf("not shown: %q of %s by %s", rule, base, show(found))
			}
		case i >= 0 && r.Gaps[i].Verdict == NotContained && r.Gaps[i].Worst == Tolerated:
			tolerated++
		}
		if found != nil {
			stuck++
		}
	}
	t.Logf("%d stuck, %d of them shown; %d left open, %d tolerated", stuck, shown, open, tolerated)
	if stuck < 50 || shown*5 < stuck*4 || tolerated < 20 {
		t.Error("the test says little, or the search finds little")
	}
}

// isStuck reports whether the old schema accepts the object, and the new one refuses an update that changes nothing but a label.
func isStuck(t *testing.T, before, after *upstream.Validator, obj map[string]any) bool {
	t.Helper()
	stored, ok := acceptedAs(t, before, obj)
	if !ok {
		return false
	}
	r, err := after.TouchUpdate(t.Context(), stored, true)
	if err != nil {
		t.Fatalf("%s: %v", show(obj), err)
	}
	return r.Refused()
}

// A rule that can be an error has a witness that is stuck.
func TestRulesThatAreErrorsHaveAStuckWitness(t *testing.T) {
	for _, c := range []struct {
		name, spec, rule string
		worst            Fate
		stuck            bool
	}{
		{"a key that may be missing", "required: [min], properties: {min: {type: integer}, max: {type: integer}}", "self.min <= 5 && self.max <= 5", Stuck, true},
		{"the same behind a guard", "required: [min], properties: {min: {type: integer}, max: {type: integer}}", "self.min <= 5 && (!has(self.max) || self.max <= 5)", Tolerated, false},
		{"the same with a default", "required: [min], properties: {min: {type: integer}, max: {type: integer, default: 1}}", "self.min <= 5 && self.max <= 5", Tolerated, false},
		{"a divisor", "properties: {k: {type: integer}}", "has(self.k) ? 100 / self.k <= 10 : true", Stuck, true},
		{"a divisor that is not 0", "properties: {k: {type: integer, minimum: 1}}", "has(self.k) ? 100 / self.k <= 10 : true", Stuck, false},                              // not decided
		{"a quantity that is no integer", "properties: {s: {type: string}}", "has(self.s) && isQuantity(self.s) ? quantity(self.s).asInteger() < 5 : true", Stuck, false}, // not found
		{"a quantity that is none", "properties: {s: {type: string}}", "has(self.s) ? quantity(self.s).isLessThan(quantity('5')) : true", Stuck, true},
		{"a quantity", "properties: {s: {type: string}}", "has(self.s) && isQuantity(self.s) ? quantity(self.s).isLessThan(quantity('5')) : true", Tolerated, false},
		{"a disjunction that needs no second part", "properties: {k: {type: integer}, a: {type: integer}}", "!has(self.k) || (self.k > 3 && self.a < self.k)", Stuck, true},
		{"an error that only one value shows", "required: [i], properties: {i: {type: integer}, a: {type: integer}}", "self.i != 1 && (self.i != 2 || self.a == 3)", Stuck, true},
		{"an index", "required: [l], properties: {l: {type: array, items: {type: integer}}}", "self.l[0] < 5", Stuck, true},
		{"an index that exists", "required: [l], properties: {l: {type: array, minItems: 1, items: {type: integer}}}", "self.l[0] < 5", Stuck, false}, // not decided
		{
			"unique pairs", "required: [l], properties: {l: {type: array, items: {type: object, required: [a], properties: {a: {type: string}, b: {type: string}}}}}",
			"self.l.all(x, self.l.exists_one(y, x.a == y.a && (has(x.b) && has(y.b) ? x.b == y.b : !has(x.b) && !has(y.b))))", Tolerated, false,
		},
		{
			"unique pairs with a field that may be missing", "required: [l], properties: {l: {type: array, items: {type: object, required: [a], properties: {a: {type: string}, b: {type: string}}}}}",
			"self.l.all(x, self.l.exists_one(y, x.a == y.a && (has(x.b) ? x.b == y.b : true)))", Stuck, false,
		}, // not found
		{"a sum that overflows", "required: [i], properties: {i: {type: integer}}", "self.i + 1 < 5", Stuck, true},
		{"a sum that does not", "required: [i], properties: {i: {type: integer, maximum: 100}}", "self.i + 1 < 5", Tolerated, false},
		{"a conversion", "required: [s], properties: {s: {type: string}}", "int(self.s) < 5", Stuck, true},
		{"a conversion that a pattern guards", "required: [s], properties: {s: {type: string, pattern: '^[0-9]{1,3}$'}}", "int(self.s) < 5", Tolerated, false},
		{"an error in one item", "required: [l], properties: {l: {type: array, items: {type: integer}}}", "self.l.all(x, 10 / x < 5)", Stuck, false}, // not found
		{
			"an error for a key that is an integer seldom", "required: [i], properties: {i: {type: integer, minimum: 0, maximum: 9000}}",
			"self.i < 5 || self.i * self.i == 61042969 && 1 / (self.i - 7813) == 1", Stuck, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := func(more string) Side {
				return side(t, parseSchema(t, "{type: object, properties: {spec: {type: object, "+c.spec+more+"}}}"))
			}
			r := Decide(t.Context(), of(""), of(fmt.Sprintf(", x-kubernetes-validations: [{rule: %q}]", c.rule)), Options{Namespaced: true})
			if len(r.Gaps) != 1 || r.Gaps[0].Witness == nil {
				t.Fatalf("%v", told(r.Gaps))
			}
			if w := r.Gaps[0].Witness; r.Gaps[0].Worst != c.worst || w.Stuck != c.stuck {
				t.Errorf("worst %v, want %v; stuck %v, want %v: %s %v", r.Gaps[0].Worst, c.worst, w.Stuck, c.stuck, show(w.Object["spec"]), w.StuckErrors)
			}
		})
	}
}
