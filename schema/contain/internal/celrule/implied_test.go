package celrule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/cel-go/common/operators"

	"sluice.dev/tools/draws"
)

func TestImpliedBy(t *testing.T) {
	for _, c := range []struct {
		old, new string
		list     bool // self is none of the scalars
		want     bool
	}{
		{old: "self == oldSelf", new: "self == oldSelf", want: true},
		{old: "self == oldSelf", new: "oldSelf == self", want: true},
		{old: "self == oldSelf", new: "oldSelf == self", list: true},
		{old: "self == oldSelf", new: "self == oldSelf || oldSelf == 0", want: true},
		{old: "self == oldSelf", new: "self == oldSelf && oldSelf == 0"},
		{old: "self == oldSelf && self > 1", new: "self > 1 || self < 0", want: true},
		{old: "self == oldSelf || self > 1", new: "self > 1"},
		{old: "self == oldSelf || self > 1", new: "oldSelf < 5 || self > 1 || self == oldSelf", want: true},
		{old: "!(self != oldSelf || self < 3)", new: "3 <= self", want: true},
		{old: "self == oldSelf", new: "self >= oldSelf", want: true},
		{old: "self == oldSelf", new: "self >= oldSelf", list: true},
		{old: "self == oldSelf", new: "dyn(self) >= oldSelf"},
		{old: "self >= oldSelf", new: "self == oldSelf"},
		{old: "self > oldSelf", new: "self >= oldSelf", want: true},
		{old: "self > oldSelf", new: "!(self < oldSelf)", want: true},
		{old: "self > oldSelf", new: "oldSelf >= self"},
		{old: "self >= oldSelf", new: "self > oldSelf"},
		{old: "self < oldSelf", new: "self != oldSelf", want: true},
		{old: "!(self < oldSelf)", new: "self > oldSelf"},
		{old: "!(self <= oldSelf)", new: "self >= oldSelf", want: true},
		{old: "self.a < self.b", new: "self.a <= self.b", list: true, want: true},
		{old: "self.a < self.b", new: "self.b <= self.a", list: true},
		{old: "self == oldSelf || (self > 1 && self < 3)", new: "self == oldSelf || self > 1", want: true},
		{old: "self > 1", new: "(self == 3 || self > 1) && (self > 1 || self == oldSelf)", want: true},
		{old: "has(self.a) ? self.a == 1 : true", new: "has(self.a) ? self.a == 1 : true || self.b == 1", list: true},
		{old: "duration(self.d) <= duration('1h')", new: "duration(self.d) <= duration('2h')", list: true, want: true},
		{old: "duration(self.d) <= duration('2h')", new: "duration(self.d) <= duration('1h')", list: true},
		{old: "duration(self.d) <= duration('60m')", new: "duration(self.d) < duration('1h')", list: true},
		{old: "duration(self.d) < duration('60m')", new: "duration(self.d) < duration('1h')", list: true, want: true},
		{old: "isQuantity(self.d) && quantity(self.d).isLessThan(quantity('1Gi'))", new: "isQuantity(self.d) && quantity(self.d).isLessThan(quantity('2Gi'))", list: true, want: true},
		{old: "quantity(self.d).isGreaterThan(quantity('1'))", new: "!quantity(self.d).isLessThan(quantity('500m'))", list: true, want: true},
		{old: "!quantity(self.d).isLessThan(quantity('1'))", new: "quantity(self.d).isGreaterThan(quantity('1'))", list: true},
		{old: "isCIDR(self.d) && cidr(self.d).prefixLength() >= 16", new: "isCIDR(self.d) && cidr(self.d).prefixLength() >= 8", list: true, want: true},
		{old: "semver(self.d).major() >= 2", new: "semver(self.d).major() > 0", list: true, want: true},
		{old: "self.b - self.a <= 5", new: "self.b - self.a <= 10", list: true, want: true},
		{old: "self.b - self.a <= 5", new: "self.a - self.b <= 10", list: true},
		{old: "!has(self.d) || isCIDR(self.d) && cidr(self.d).prefixLength() >= 16", new: "!has(self.d) || isCIDR(self.d) && cidr(self.d).prefixLength() >= 8", list: true, want: true},
		{old: "!has(self.d) || isCIDR(self.d) && cidr(self.d).prefixLength() >= 8", new: "!has(self.d) || isCIDR(self.d) && cidr(self.d).prefixLength() >= 16", list: true},
		{old: "self.a || self.b && self.c", new: "(self.a || self.b) && (self.a || self.c)", list: true, want: true},
		{old: "(self.a || self.b) && (self.a || self.c)", new: "self.a || self.b && self.c", list: true, want: true},
		{old: "self.a || self.b", new: "self.a || self.b && self.c", list: true},
		{old: "self.a + self.b <= 10", new: "self.b + self.a <= 10", list: true, want: true},
		{old: "self.a + self.b <= 'x'", new: "self.b + self.a <= 'x'", list: true},
		{old: "10 > self.a + self.b", new: "self.a + self.b < 11", list: true, want: true},
		{old: "self.a < 5", new: "self.a < 5.5", list: true},
		{old: "self.t > timestamp('2020-01-01T00:00:00Z')", new: "self.t > timestamp('2020-01-01T00:00:00+01:00')", list: true, want: true},
		{old: "quantity(self.d).isLessThan(quantity('1e3'))", new: "quantity(self.d).isLessThan(quantity('1e999999999'))", list: true},
	} {
		if got := parse(t, c.new).ImpliedBy([]*Rule{parse(t, c.old)}, !c.list); got != c.want {
			t.Errorf("%s by %s: %v, want %v", c.new, c.old, got, c.want)
		}
	}
	both := []*Rule{parse(t, "self == oldSelf || oldSelf == 0"), parse(t, "self > 1")}
	if r := parse(t, "(oldSelf == 0 || self == oldSelf || self == 7) && self > 1"); !r.ImpliedBy(both, true) || r.ImpliedBy(both[:1], true) {
		t.Error("two rules do not imply what they imply together, or one does")
	}
	if parse(t, "self == oldSelf").ImpliedBy(nil, true) {
		t.Error("implied by nothing")
	}
}

// TestNestedJunctionsAreBounded ends: each level of such a rule could be taken apart in two ways.
func TestNestedJunctionsAreBounded(t *testing.T) {
	rule := "self.z"
	for i := range 100 {
		rule = fmt.Sprintf("self.x%d || self.b && (%s)", i, rule)
	}
	if parse(t, rule).ImpliedBy([]*Rule{parse(t, "self.b")}, false) {
		t.Error("implied by one of its parts")
	}
}

// loosen changes comparisons and operands, most often to what is implied.
func (g *gen) loosen(e *expr, other *expr) *expr {
	c := *e
	c.args = append([]*expr(nil), e.args...)
	if c.kind != call {
		return &c
	}
	binary := func(name string, args ...*expr) *expr { return &expr{kind: call, name: name, args: args} }
	switch c.name {
	case operators.LogicalAnd, operators.LogicalOr:
		for i, a := range c.args {
			c.args[i] = g.loosen(a, other)
		}
		return pick(g, &c, c.args[0], binary(operators.LogicalOr, &c, other), binary(operators.LogicalAnd, &c, other))
	case operators.Less, operators.Greater, operators.Equals, operators.NotEquals, operators.LessEquals:
		for i, a := range c.args {
			if n, ok := a.val.(int64); ok && a.kind == literal && g.IntN(2) == 0 {
				c.args[i] = &expr{kind: literal, val: n + int64(g.IntN(5)) - 2}
				return &c
			}
		}
		return binary(pick(g, operators.LessEquals, operators.GreaterEquals, operators.NotEquals, operators.Equals), pick(g, c.args, []*expr{c.args[1], c.args[0]})...)
	}
	return pick(g, &c, binary(operators.LogicalOr, other, &c))
}

// TestImpliedByMeansImplied holds what the form of rules shows against upstream's evaluation: wherever the old rule holds, the
// new one does.
func TestImpliedByMeansImplied(t *testing.T) {
	pairs, implied, held := 0, 0, 0
	for seed := range draws.Seeds(500) {
		g := &gen{Rand: rand.New(rand.NewPCG(seed, 7))}
		p, scalar := g.object(2), false
		if g.chance(40) {
			p, scalar = props{Type: pick(g, "integer", "string", "number")}, true
		}
		vars := []genVar{{"self", &p, 0}}
		text := g.boolean(vars, 2)
		if scalar {
			text = pick(g, "self < %s", "self == %s", "self > %s && self != %s", "self == %s || self < %s", "!(self >= %s)")
			for strings.Contains(text, "%s") {
				text = strings.Replace(text, "%s", map[string]string{"integer": pick(g, "1", "2"), "string": pick(g, "'a'", "'b'"), "number": pick(g, "1.0", "2.5")}[p.Type], 1)
			}
		}
		old, j := parse(t, text), newJudge(t, p, text, false)
		if j == nil {
			continue
		}
		other := parse(t, g.boolean(vars, 1)).root
		for range 6 {
			next := write(g.loosen(old.root, other))
			pairs++
			if !parse(t, next).ImpliedBy([]*Rule{old}, scalar) {
				continue
			}
			k := newJudge(t, p, next, false)
			if k == nil {
				continue
			}
			implied++
			for range 12 {
				v := g.value(&p)
				if j.refuses(v) != "" {
					continue
				}
				held++
				if why := k.refuses(v); why != "" && !strings.Contains(why, "cost") {
					t.Fatalf("seed %d on %s\n%s holds, and not\n%s: %s", seed, toJSON(v), text, next, why)
				}
			}
		}
	}
	t.Logf("%d of %d pairs are implied by their form; %d values", implied, pairs, held)
	if implied < 50 || held < 200 {
		t.Errorf("%d of %d pairs, %d values: the test says little", implied, pairs, held)
	}
}
