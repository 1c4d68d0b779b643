package celrule

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/operators"
)

// The normal form is a text with prefix operators. What is normalised, and why the result (true, false or error) stays
// the same for rules that compile:
//
//   - a && b, a || b: order, nesting and repetition, because CEL evaluates both operands and lets a deciding operand win
//     over an error of the other (evalAnd, evalOr in github.com/google/cel-go/interpreter);
//   - negations are pushed down: De Morgan's laws hold for true, false and error; !(a < b) is b <= a, because the values
//     that can be compared without an error are ordered totally; !all(p) is exists(!p) and the other way round, because
//     both are folds of && and ||; !(c ? a : b) is c ? !a : !b;
//   - a > b is b < a, a >= b is b <= a: comparisons are antisymmetric, and both operands are always evaluated;
//   - a == literal: the order, and a != literal is !(a == literal), for scalar literals only, where equality never is an
//     error. For lists and maps it is not: a != b is true where a == b is an error. Not where dyn() occurs, because
//     then a list can meet a scalar;
//   - x in [literals]: order and repetition; x in [v] is x == v;
//   - literal + x and literal * x for numbers: the order;
//   - size(x) and x.size(), matches(x, r) and x.matches(r), existsOne and exists_one are the same functions;
//   - c ? true : false is c; !c ? a : b is c ? b : a;
//   - names of variables that macros bind;
//   - how literals are written, parentheses, white space.
//
// Whether a part that is no boolean expression stands where a boolean is needed (an operand of &&, ||, !) does not
// matter: it is an error there in each form. Where no boolean is needed, forms that would drop the check are kept.
type printer struct {
	vars []string          // bound variables, the outermost first
	free map[string]string // how free variables are written; a missing one stands for itself
	dyn  bool
}

// canonical returns the normal form of a rule.
func canonical(e *expr) string {
	p := &printer{dyn: usesDyn(e)}
	return p.boolean(e, false)
}

func usesDyn(e *expr) bool {
	found := false
	e.walk(func(x *expr) { found = found || x.kind == call && x.name == "dyn" })
	return found
}

func wrap(op string, args ...string) string {
	return "(" + op + " " + strings.Join(args, " ") + ")"
}

func negated(s string, neg bool) string {
	if neg {
		return wrap("!", s)
	}
	return s
}

// boolean writes e, or its negation, at a place that needs a boolean.
func (p *printer) boolean(e *expr, neg bool) string {
	if e.kind == literal {
		if b, ok := e.val.(bool); ok {
			return strconv.FormatBool(b != neg)
		}
	}
	if e.kind != call {
		return negated(p.value(e), neg)
	}
	switch e.name {
	case operators.LogicalNot:
		return p.boolean(e.args[0], !neg)
	case operators.LogicalAnd, operators.LogicalOr:
		op := "&&"
		if (e.name == operators.LogicalOr) != neg {
			op = "||"
		}
		parts := p.junction(e, e.name, neg, nil)
		slices.Sort(parts)
		parts = slices.Compact(parts)
		if len(parts) == 1 {
			return parts[0]
		}
		return wrap(op, parts...)
	case operators.Equals, operators.NotEquals:
		return p.equality(e, neg)
	case operators.Less:
		return p.less(e.args[0], e.args[1], neg)
	case operators.LessEquals:
		return p.less(e.args[1], e.args[0], !neg)
	case operators.Greater:
		return p.less(e.args[1], e.args[0], neg)
	case operators.GreaterEquals:
		return p.less(e.args[0], e.args[1], !neg)
	case operators.In:
		return negated(p.in(e), neg)
	case operators.Conditional:
		return p.conditional(e, neg, true)
	case "all", "exists":
		if e.binders() > 0 {
			name := e.name
			if neg {
				name = map[string]string{"all": "exists", "exists": "all"}[name]
			}
			return p.macro(e, name, func(body *expr, last bool) string { return p.boolean(body, neg && last) })
		}
	}
	return negated(p.value(e), neg)
}

// less writes a < b, or its negation b <= a.
func (p *printer) less(a, b *expr, neg bool) string {
	if neg {
		return wrap("<=", p.value(b), p.value(a))
	}
	return wrap("<", p.value(a), p.value(b))
}

// junction collects the operands of a chain of && or ||.
func (p *printer) junction(e *expr, op string, neg bool, parts []string) []string {
	for _, a := range e.args {
		if a.kind == call && a.name == op {
			parts = p.junction(a, op, neg, parts)
		} else {
			parts = append(parts, p.boolean(a, neg))
		}
	}
	return parts
}

func (p *printer) equality(e *expr, neg bool) string {
	a, b := e.args[0], e.args[1]
	if a.isConst() && !b.isConst() && !p.dyn {
		a, b = b, a
	}
	if b.isConst() && !p.dyn {
		return negated(wrap("==", p.value(a), p.value(b)), neg != (e.name == operators.NotEquals))
	}
	op := "=="
	if e.name == operators.NotEquals {
		op = "!="
	}
	return negated(wrap(op, p.value(a), p.value(b)), neg)
}

func (p *printer) in(e *expr) string {
	x, l := e.args[0], e.args[1]
	if l.kind != list || l.optional != nil || len(l.args) == 0 || slices.ContainsFunc(l.args, func(a *expr) bool { return !a.isConst() }) {
		return wrap("in", p.value(x), p.value(l))
	}
	vs := make([]string, len(l.args))
	for i, a := range l.args {
		vs[i] = p.value(a)
	}
	slices.Sort(vs)
	vs = slices.Compact(vs)
	if len(vs) == 1 && !p.dyn {
		return wrap("==", p.value(x), vs[0])
	}
	return wrap("in", p.value(x), "["+strings.Join(vs, " ")+"]")
}

func isBool(e *expr, want bool) bool {
	b, ok := e.val.(bool)
	return e.kind == literal && ok && b == want
}

// conditional writes c ? a : b. There are two forms, which differ in the sign of c; it writes the simpler one.
func (p *printer) conditional(e *expr, neg, boolean bool) string {
	c, a, b := e.args[0], e.args[1], e.args[2]
	if boolean || isLogical(c) {
		switch {
		case isBool(a, true) && isBool(b, false):
			return p.boolean(c, neg)
		case isBool(a, false) && isBool(b, true):
			return p.boolean(c, !neg)
		}
	}
	branch := p.value
	if boolean {
		branch = func(x *expr) string { return p.boolean(x, neg) }
	}
	c, negate, swap := p.unsigned(c)
	if swap {
		a, b = b, a
	}
	return wrap("?", p.boolean(c, negate), branch(a), branch(b))
}

// unsigned removes the signs from a condition. It reports whether the rest has a simpler negation, and whether that simpler form is the
// opposite of the condition.
func (p *printer) unsigned(c *expr) (base *expr, negate, opposite bool) {
	for c.kind == call && c.name == operators.LogicalNot {
		c, opposite = c.args[0], !opposite
	}
	if c.kind == call {
		switch c.name {
		case operators.LessEquals, operators.GreaterEquals:
			negate = true
		case operators.NotEquals:
			negate = !p.dyn && (c.args[0].isConst() || c.args[1].isConst())
		}
	}
	return c, negate, opposite != negate
}

// isLogical reports whether the result of e is always a boolean or an error.
func isLogical(e *expr) bool {
	if e.kind == literal {
		_, ok := e.val.(bool)
		return ok
	}
	if e.kind != call {
		return false
	}
	switch e.name {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Equals, operators.NotEquals,
		operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, operators.In:
		return true
	case "all", "exists", "exists_one", "existsOne":
		return e.binders() > 0
	}
	return e.isHas()
}

// macro writes a call that binds variables. f writes the bodies; its second argument is true for the last one.
func (p *printer) macro(e *expr, name string, f func(body *expr, last bool) string) string {
	n := e.binders()
	parts := []string{p.value(e.args[0]), strconv.Itoa(n)}
	for _, v := range e.args[1 : n+1] {
		if v.kind != ident { // the parser of the API server refuses it
			return wrap(name, p.values(e.args)...)
		}
		p.vars = append(p.vars, v.name)
	}
	bodies := e.args[n+1:]
	for i, b := range bodies {
		parts = append(parts, f(b, i == len(bodies)-1))
	}
	p.vars = p.vars[:len(p.vars)-n]
	return wrap(name, parts...)
}

func (p *printer) values(es []*expr) []string {
	out := make([]string, len(es))
	for i, e := range es {
		out[i] = p.value(e)
	}
	return out
}

// value writes e at a place that allows any value.
func (p *printer) value(e *expr) string {
	switch e.kind {
	case literal:
		return writeConst(e.val)
	case ident:
		for i, v := range slices.Backward(p.vars) {
			if v == e.name {
				return "$" + strconv.Itoa(i)
			}
		}
		if s, ok := p.free[e.name]; ok {
			return s
		}
		return e.name
	case sel:
		return wrap(".", p.value(e.args[0]), strconv.Quote(e.name))
	case list:
		return "[" + strings.Join(p.entries(e, 1), " ") + "]"
	case mapping:
		return "{" + strings.Join(p.entries(e, 2), " ") + "}"
	case message:
		return "new " + e.name + "{" + strings.Join(p.entries(e, 2), " ") + "}"
	case call:
	}
	return p.call(e)
}

// entries writes the parts of a literal, of which each entry has width.
func (p *printer) entries(e *expr, width int) []string {
	vs := p.values(e.args)
	for i, o := range e.optional {
		if o {
			vs[i*width] = "?" + vs[i*width]
		}
	}
	return vs
}

func (p *printer) call(e *expr) string {
	switch e.name {
	case operators.LogicalNot:
		return p.negation(e)
	case operators.LogicalAnd, operators.LogicalOr:
		s := p.boolean(e, false)
		if !strings.HasPrefix(s, "(&& ") && !strings.HasPrefix(s, "(|| ") {
			return wrap("&&", s) // all operands are the same
		}
		return s
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater,
		operators.GreaterEquals, operators.In:
		return p.boolean(e, false)
	case operators.Conditional:
		return p.conditional(e, false, false)
	case operators.Add, operators.Multiply:
		if a, b := e.args[0], e.args[1]; isNumber(a) && !b.isConst() {
			return wrap(e.name, p.value(b), p.value(a))
		}
	case "size", "matches":
		return wrap(e.name, p.values(e.args)...)
	case "has":
		if e.isHas() {
			f := e.args[0]
			return wrap("has", p.value(f.args[0]), strconv.Quote(f.name))
		}
	}
	if e.binders() > 0 {
		name := e.name
		if name == "existsOne" {
			name = "exists_one"
		}
		return p.macro(e, name, func(body *expr, last bool) string {
			boolean := !last
			switch name {
			case "all", "exists", "exists_one", "filter":
				boolean = true
			}
			if boolean {
				return p.boolean(body, false)
			}
			return p.value(body)
		})
	}
	name := e.name
	if e.member {
		name = "." + name
	}
	return wrap(name, p.values(e.args)...)
}

func (p *printer) negation(e *expr) string {
	inner := e
	for inner.kind == call && inner.name == operators.LogicalNot {
		inner = inner.args[0]
	}
	if isLogical(inner) || inner == e.args[0] {
		return p.boolean(e, false)
	}
	return wrap("!", p.value(e.args[0])) // !!x is an error where x is no boolean, x is none
}

func isNumber(e *expr) bool {
	switch e.val.(type) {
	case int64, uint64, float64:
		return e.kind == literal
	}
	return false
}

func writeConst(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10) + "u"
	case float64:
		return "f" + strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return strconv.Quote(v)
	case []byte:
		return "b" + hex.EncodeToString(v)
	}
	return fmt.Sprintf("%T", v)
}
