package celrule

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/common/operators"

	"sluice.dev/tools/draws"
)

func TestCanonical(t *testing.T) {
	same := [][]string{
		{`self.a&&self.b`, `self.b  &&  ( self.a )`, `self.a && self.b && self.a`, `!(!self.a || !self.b)`},
		{`self.a || (self.b || self.c)`, `(self.c || self.a) || self.b`},
		{`self.x != "a"`, `!(self.x == 'a')`, `'a' != self.x`, `!('a' == self.x)`, `self.x != r"a"`},
		{`self.x > self.y`, `self.y < self.x`, `!(self.x <= self.y)`, `!!(self.x > self.y)`},
		{`size(self.x) == 0`, `self.x.size() == 0`, `0 == size(self.x)`},
		{`self.x in ['a', 'b']`, `self.x in ["b", "a", "b"]`},
		{`self.l.all(x, x > 1)`, `self.l.all(y, 1 < y)`, `!self.l.exists(z, z <= 1)`},
		{`self.l.exists_one(x, x)`, `self.l.existsOne(y, y)`},
		{`matches(self.a, 'x')`, `self.a.matches('x')`},
		{`!has(self.a) == has(self.b)`, `!has(self.a) && has(self.b) || has(self.a) && !has(self.b)`, `has(self.a) != has(self.b)`},
		{`!(!has(self.a) || self.b) && !(self.c || self.d)`, `has(self.a) && !self.b && !self.c && !self.d`},
		{`!(has(self.a) ? self.b : self.c)`, `has(self.a) ? !self.b : !self.c`},
	}
	seen := map[string]int{}
	for i, group := range same {
		for _, text := range group {
			c := parse(t, text).Canonical()
			if j, ok := seen[c]; ok && j != i {
				t.Errorf("%s has the form of group %d: %s", text, j, c)
			}
			if want := parse(t, group[0]).Canonical(); c != want {
				t.Errorf("%s: %s\n%s: %s", group[0], want, text, c)
			}
			seen[c] = i
		}
	}
	different := [][2]string{
		{`self.x == self.y`, `self.y == self.x`},        // lists compare as the left one says
		{`self.x != self.y`, `!(self.x == self.y)`},     // an error of equality makes != true
		{`dyn(self.x) != 1`, `!(dyn(self.x) == 1)`},     // a list may meet a number
		{`self.a ? self.b : true`, `!self.a || self.b`}, // an error of the condition is an error
		{`self.x == 1`, `self.x == 1.0`},
		{`self.x == 1`, `self.x == 1u`},
		{`self.x == '1'`, `self.x == 1`},
		{`self.x + 'a' == ''`, `'a' + self.x == ''`},
		{`self.x - 1 == 0`, `1 - self.x == 0`},
		{`self.a < self.b`, `self.a <= self.b`},
		{`self.l.all(x, x)`, `self.l.exists(x, x)`},
		{`self.l.all(x, self.l.all(y, x < y))`, `self.l.all(x, self.l.all(y, y < x))`},
		{`self.x in ['a', self.y]`, `self.x in [self.y, 'a']`},
		{`has(self.a)`, `self.a`},
		{`self.?a.hasValue()`, `has(self.a)`},
	}
	for _, d := range different {
		if a, b := parse(t, d[0]).Canonical(), parse(t, d[1]).Canonical(); a == b {
			t.Errorf("%s and %s have the same form %s", d[0], d[1], a)
		}
	}
}

// write turns an expression into CEL again.
func write(e *expr) string {
	args := make([]string, len(e.args))
	for i, a := range e.args {
		args[i] = write(a)
	}
	switch e.kind {
	case literal:
		switch v := e.val.(type) {
		case string:
			return strconv.Quote(v)
		case float64:
			s := strconv.FormatFloat(v, 'f', -1, 64)
			if !strings.Contains(s, ".") {
				s += ".0"
			}
			return s
		case uint64:
			return fmt.Sprint(v, "u")
		case nil:
			return "null"
		}
		return fmt.Sprint(e.val)
	case ident:
		return e.name
	case sel:
		return args[0] + "." + e.name
	case list:
		return "[" + strings.Join(args, ", ") + "]"
	case mapping:
		return "{}"
	case call:
	}
	switch e.name {
	case operators.Conditional:
		return "(" + args[0] + " ? (" + args[1] + ") : (" + args[2] + "))"
	case operators.LogicalNot:
		return "!(" + args[0] + ")"
	case operators.Negate:
		return "-(" + args[0] + ")"
	case operators.Index:
		return args[0] + "[" + args[1] + "]"
	case operators.OptSelect:
		return args[0] + ".?" + fmt.Sprint(e.args[1].val)
	}
	if op, ok := operators.FindReverseBinaryOperator(e.name); ok {
		return "(" + args[0] + " " + op + " " + args[1] + ")"
	}
	if e.member {
		return args[0] + "." + e.name + "(" + strings.Join(args[1:], ", ") + ")"
	}
	return e.name + "(" + strings.Join(args, ", ") + ")"
}

// mutate changes an expression a little, most often without a change of its meaning.
func (g *gen) mutate(e *expr) *expr {
	c := *e
	c.args = make([]*expr, len(e.args))
	for i, a := range e.args {
		c.args[i] = a
		bound := i > 0 && i <= e.binders()
		if g.chance(60) && !bound && !e.isHas() && e.name != operators.OptSelect {
			c.args[i] = g.mutate(a)
		}
	}
	neg := func(x *expr) *expr { return &expr{kind: call, name: operators.LogicalNot, args: []*expr{x}} }
	swap := func(name string) *expr {
		return &expr{kind: call, name: name, args: []*expr{c.args[1], c.args[0]}}
	}
	if c.kind != call || !g.chance(50) {
		return &c
	}
	switch c.name {
	case operators.LogicalAnd, operators.LogicalOr:
		other := operators.LogicalAnd
		if c.name == other {
			other = operators.LogicalOr
		}
		return pick(g, swap(c.name), neg(&expr{kind: call, name: other, args: []*expr{neg(c.args[0]), neg(c.args[1])}}),
			&expr{kind: call, name: c.name, args: []*expr{&c, c.args[0]}}, swap(other))
	case operators.LogicalNot:
		return pick(g, &c, neg(neg(&c)), c.args[0])
	case operators.Equals:
		both, neither := &expr{kind: call, name: operators.LogicalAnd, args: c.args}, &expr{kind: call, name: operators.LogicalAnd, args: []*expr{neg(c.args[0]), neg(c.args[1])}}
		return pick(g, &expr{kind: call, name: operators.LogicalOr, args: []*expr{both, neither}}, swap(c.name), neg(&expr{kind: call, name: operators.NotEquals, args: c.args}))
	case operators.NotEquals:
		return pick(g, swap(c.name), neg(&expr{kind: call, name: operators.Equals, args: c.args}))
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		flip := map[string]string{
			operators.Less: operators.Greater, operators.LessEquals: operators.GreaterEquals,
			operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
		}[c.name]
		opposite := map[string]string{
			operators.Less: operators.GreaterEquals, operators.LessEquals: operators.Greater,
			operators.Greater: operators.LessEquals, operators.GreaterEquals: operators.Less,
		}[c.name]
		return pick(g, swap(flip), neg(&expr{kind: call, name: opposite, args: c.args}), swap(c.name))
	case operators.Conditional:
		return pick(g, &expr{kind: call, name: c.name, args: []*expr{neg(c.args[0]), c.args[2], c.args[1]}},
			&expr{kind: call, name: c.name, args: []*expr{c.args[0], c.args[2], c.args[1]}})
	case operators.Add, operators.Multiply, operators.Subtract:
		return swap(c.name)
	case "all", "exists":
		if c.binders() == 1 {
			other := "all"
			if c.name == other {
				other = "exists"
			}
			return neg(&expr{kind: call, name: other, member: true, args: []*expr{c.args[0], c.args[1], neg(c.args[2])}})
		}
	}
	return &c
}

func TestSameCanonicalMeansSameVerdict(t *testing.T) {
	pairs, equal := 0, 0
	for seed := range draws.Seeds(500) {
		g := &gen{Rand: rand.New(rand.NewPCG(seed, 2))}
		p := g.object(2)
		text := g.boolean([]genVar{{"self", &p, 0}}, 3)
		r := parse(t, text)
		if a, b := parse(t, write(r.root)).Canonical(), r.Canonical(); a != b {
			t.Fatalf("%s written again: %s\n%s\n%s", text, write(r.root), a, b)
		}
		j := newJudge(t, p, text, false)
		if j == nil {
			continue
		}
		var values []any
		for range 12 {
			values = append(values, g.value(&p))
		}
		for range 6 {
			other := write(g.mutate(r.root))
			if other == text {
				continue
			}
			pairs++
			if parse(t, other).Canonical() != r.Canonical() {
				continue
			}
			k := newJudge(t, p, other, false)
			if k == nil {
				continue
			}
			equal++
			for _, v := range values {
				if a, b := j.refuses(v), k.refuses(v); (a == "") != (b == "") {
					t.Fatalf("seed %d on %s\n%s: %q\n%s: %q\n%s", seed, toJSON(v), text, a, other, b, r.Canonical())
				}
			}
		}
	}
	t.Logf("%d of %d pairs have the same form", equal, pairs)
	if equal < 50 {
		t.Errorf("only %d pairs have the same form", equal)
	}
}
