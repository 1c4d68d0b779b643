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

// canonicalText returns the normal form of a rule.
func canonicalText(e *expr) string {
	p := &printer{dyn: usesDyn(e)}
	return p.writeBoolean(e, false)
}

func usesDyn(e *expr) bool {
	found := false
	e.walkParts(func(x *expr) { found = found || x.kind == call && x.name == "dyn" })
	return found
}

func operatorText(op string, args ...string) string {
	return "(" + op + " " + strings.Join(args, " ") + ")"
}

func negatedText(s string, neg bool) string {
	if neg {
		return operatorText("!", s)
	}
	return s
}

// writeBoolean writes e, or its negation, at a place that needs a boolean.
func (p *printer) writeBoolean(e *expr, neg bool) string {
	if e.kind == literal {
		if b, ok := e.val.(bool); ok {
			return strconv.FormatBool(b != neg)
		}
	}
	if e.kind != call {
		return negatedText(p.writeValue(e), neg)
	}
	switch e.name {
	case operators.LogicalNot:
		return p.writeBoolean(e.args[0], !neg)
	case operators.LogicalAnd, operators.LogicalOr:
		op := "&&"
		if (e.name == operators.LogicalOr) != neg {
			op = "||"
		}
		parts := p.junctionOperands(e, e.name, neg, nil)
		slices.Sort(parts)
		parts = slices.Compact(parts)
		if len(parts) == 1 {
			return parts[0]
		}
		return operatorText(op, parts...)
	case operators.Equals, operators.NotEquals:
		return p.writeEquality(e, neg)
	case operators.Less:
		return p.writeLess(e.args[0], e.args[1], neg)
	case operators.LessEquals:
		return p.writeLess(e.args[1], e.args[0], !neg)
	case operators.Greater:
		return p.writeLess(e.args[1], e.args[0], neg)
	case operators.GreaterEquals:
		return p.writeLess(e.args[0], e.args[1], !neg)
	case operators.In:
		return negatedText(p.writeIn(e), neg)
	case operators.Conditional:
		return p.writeConditional(e, neg, true)
	case "all", "exists":
		if e.binders() > 0 {
			name := e.name
			if neg {
				name = map[string]string{"all": "exists", "exists": "all"}[name]
			}
			return p.writeMacro(e, name, func(body *expr, last bool) string { return p.writeBoolean(body, neg && last) })
		}
	}
	return negatedText(p.writeValue(e), neg)
}

// writeLess writes a < b, or its negation b <= a.
func (p *printer) writeLess(a, b *expr, neg bool) string {
	if neg {
		return operatorText("<=", p.writeValue(b), p.writeValue(a))
	}
	return operatorText("<", p.writeValue(a), p.writeValue(b))
}

// junctionOperands collects the operands of a chain of && or ||.
func (p *printer) junctionOperands(e *expr, op string, neg bool, parts []string) []string {
	for _, a := range e.args {
		if a.kind == call && a.name == op {
			parts = p.junctionOperands(a, op, neg, parts)
		} else {
			parts = append(parts, p.writeBoolean(a, neg))
		}
	}
	return parts
}

func (p *printer) writeEquality(e *expr, neg bool) string {
	a, b := e.args[0], e.args[1]
	if a.isConst() && !b.isConst() && !p.dyn {
		a, b = b, a
	}
	if b.isConst() && !p.dyn {
		return negatedText(operatorText("==", p.writeValue(a), p.writeValue(b)), neg != (e.name == operators.NotEquals))
	}
	op := "=="
	if e.name == operators.NotEquals {
		op = "!="
	}
	return negatedText(operatorText(op, p.writeValue(a), p.writeValue(b)), neg)
}

func (p *printer) writeIn(e *expr) string {
	x, l := e.args[0], e.args[1]
	if l.kind != list || l.optional != nil || len(l.args) == 0 || slices.ContainsFunc(l.args, func(a *expr) bool { return !a.isConst() }) {
		return operatorText("in", p.writeValue(x), p.writeValue(l))
	}
	vs := make([]string, len(l.args))
	for i, a := range l.args {
		vs[i] = p.writeValue(a)
	}
	slices.Sort(vs)
	vs = slices.Compact(vs)
	if len(vs) == 1 && !p.dyn {
		return operatorText("==", p.writeValue(x), vs[0])
	}
	return operatorText("in", p.writeValue(x), "["+strings.Join(vs, " ")+"]")
}

func isBool(e *expr, want bool) bool {
	b, ok := e.val.(bool)
	return e.kind == literal && ok && b == want
}

// writeConditional writes c ? a : b. There are two forms, which differ in the sign of c; it writes the simpler one.
func (p *printer) writeConditional(e *expr, neg, boolean bool) string {
	c, a, b := e.args[0], e.args[1], e.args[2]
	if boolean || isLogical(c) {
		switch {
		case isBool(a, true) && isBool(b, false):
			return p.writeBoolean(c, neg)
		case isBool(a, false) && isBool(b, true):
			return p.writeBoolean(c, !neg)
		}
	}
	branch := p.writeValue
	if boolean {
		branch = func(x *expr) string { return p.writeBoolean(x, neg) }
	}
	c, negate, swap := p.withoutSigns(c)
	if swap {
		a, b = b, a
	}
	return operatorText("?", p.writeBoolean(c, negate), branch(a), branch(b))
}

// withoutSigns removes the signs from a condition. It reports whether the rest has a simpler negation, and whether that simpler form is the
// opposite of the condition.
func (p *printer) withoutSigns(c *expr) (base *expr, negate, opposite bool) {
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

// writeMacro writes a call that binds variables. f writes the bodies; its second argument is true for the last one.
func (p *printer) writeMacro(e *expr, name string, f func(body *expr, last bool) string) string {
	n := e.binders()
	parts := []string{p.writeValue(e.args[0]), strconv.Itoa(n)}
	for _, v := range e.args[1 : n+1] {
		if v.kind != ident { // the parser of the API server refuses it
			return operatorText(name, p.writeValues(e.args)...)
		}
		p.vars = append(p.vars, v.name)
	}
	bodies := e.args[n+1:]
	for i, b := range bodies {
		parts = append(parts, f(b, i == len(bodies)-1))
	}
	p.vars = p.vars[:len(p.vars)-n]
	return operatorText(name, parts...)
}

func (p *printer) writeValues(es []*expr) []string {
	out := make([]string, len(es))
	for i, e := range es {
		out[i] = p.writeValue(e)
	}
	return out
}

// writeValue writes e at a place that allows any value.
func (p *printer) writeValue(e *expr) string {
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
		return operatorText(".", p.writeValue(e.args[0]), strconv.Quote(e.name))
	case list:
		return "[" + strings.Join(p.writeEntries(e, 1), " ") + "]"
	case mapping:
		return "{" + strings.Join(p.writeEntries(e, 2), " ") + "}"
	case message:
		return "new " + e.name + "{" + strings.Join(p.writeEntries(e, 2), " ") + "}"
	case call:
	}
	return p.writeCall(e)
}

// writeEntries writes the parts of a literal, of which each entry has width.
func (p *printer) writeEntries(e *expr, width int) []string {
	vs := p.writeValues(e.args)
	for i, o := range e.optional {
		if o {
			vs[i*width] = "?" + vs[i*width]
		}
	}
	return vs
}

func (p *printer) writeCall(e *expr) string {
	switch e.name {
	case operators.LogicalNot:
		return p.writeNegation(e)
	case operators.LogicalAnd, operators.LogicalOr:
		s := p.writeBoolean(e, false)
		if !strings.HasPrefix(s, "(&& ") && !strings.HasPrefix(s, "(|| ") {
			return operatorText("&&", s) // all operands are the same
		}
		return s
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater,
		operators.GreaterEquals, operators.In:
		return p.writeBoolean(e, false)
	case operators.Conditional:
		return p.writeConditional(e, false, false)
	case operators.Add, operators.Multiply:
		if a, b := e.args[0], e.args[1]; isNumber(a) && !b.isConst() {
			return operatorText(e.name, p.writeValue(b), p.writeValue(a))
		}
	case "size", "matches":
		return operatorText(e.name, p.writeValues(e.args)...)
	case "has":
		if e.isHas() {
			f := e.args[0]
			return operatorText("has", p.writeValue(f.args[0]), strconv.Quote(f.name))
		}
	}
	if e.binders() > 0 {
		name := e.name
		if name == "existsOne" {
			name = "exists_one"
		}
		return p.writeMacro(e, name, func(body *expr, last bool) string {
			boolean := !last
			switch name {
			case "all", "exists", "exists_one", "filter":
				boolean = true
			}
			if boolean {
				return p.writeBoolean(body, false)
			}
			return p.writeValue(body)
		})
	}
	name := e.name
	if e.member {
		name = "." + name
	}
	return operatorText(name, p.writeValues(e.args)...)
}

func (p *printer) writeNegation(e *expr) string {
	inner := e
	for inner.kind == call && inner.name == operators.LogicalNot {
		inner = inner.args[0]
	}
	if isLogical(inner) || inner == e.args[0] {
		return p.writeBoolean(e, false)
	}
	return operatorText("!", p.writeValue(e.args[0])) // !!x is an error where x is no boolean, x is none
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
