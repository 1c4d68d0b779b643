package celrule

// Do two rules say the same, as far as their text shows? This file writes rules in a normal form. For example, a && b and b && a have one
// form.

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
//     both are folds of && and ||; !(c ? a : b) is c ? !a : !b. Where no boolean is needed, the outermost negation stays;
//   - a > b is b < a, a >= b is b <= a: comparisons are antisymmetric, and both operands are always evaluated;
//   - a == literal: the order, and a != literal is !(a == literal), for scalar literals only, where equality never is an
//     error. For lists and maps it is not: a != b is true where a == b is an error. Not where dyn() occurs, because
//     then a list can meet a scalar;
//   - a == b of two conditions is a && b || !a && !b, and a != b is a == !b: they are errors where one of both is;
//   - x in [literals]: order and repetition;
//   - size(x) and x.size(), matches(x, r) and x.matches(r), existsOne and exists_one are the same functions;
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

// usesDyn reports whether e calls dyn(). Then a comparison may meet values of types that it does not take, which is
// an error.
func usesDyn(e *expr) bool {
	return e.anyPart(func(x *expr) bool { return x.kind == call && x.name == "dyn" })
}

// operatorText writes an operator before its operands, in parentheses. So no two trees have one text.
func operatorText(op string, args ...string) string {
	return "(" + op + " " + strings.Join(args, " ") + ")"
}

// negatedText is s, or its negation. It is for parts whose negation has no other form.
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
		parts := p.junctionOperands(e, neg)
		slices.Sort(parts)
		parts = slices.Compact(parts)
		if len(parts) == 1 {
			return parts[0]
		}
		return operatorText(op, parts...)
	case operators.Equals, operators.NotEquals:
		return p.writeEquality(e, neg)
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		op, a, b := p.asLess(e, neg)
		return operatorText(op, a, b)
	case operators.In:
		return negatedText(p.writeIn(e), neg)
	case operators.Conditional:
		return p.writeConditional(e, func(x *expr) string { return p.writeBoolean(x, neg) })
	case "all", "exists":
		if e.binders() > 0 {
			return p.writeQuantifier(e, neg)
		}
	}
	return negatedText(p.writeValue(e), neg)
}

// writeQuantifier writes all or exists, or its negation, which is the other one of the negated body.
func (p *printer) writeQuantifier(e *expr, neg bool) string {
	name := e.name
	if neg {
		name = map[string]string{"all": "exists", "exists": "all"}[name]
	}
	return p.writeMacro(e, name, func(body *expr, last bool) string { return p.writeBoolean(body, neg && last) })
}

// comparisons are the operators of order as a < b: with the operands swapped, or negated, as a <= b is !(b < a).
var comparisons = map[string]struct{ swapped, negated bool }{
	operators.Less: {false, false}, operators.LessEquals: {true, true},
	operators.Greater: {true, false}, operators.GreaterEquals: {false, true},
}

// asLess returns a comparison, or its negation, as a < b or a <= b.
func (p *printer) asLess(e *expr, neg bool) (op, a, b string) {
	c := comparisons[e.name]
	a, b = p.writeValue(e.args[0]), p.writeValue(e.args[1])
	if c.swapped {
		a, b = b, a
	}
	if c.negated != neg {
		return "<=", b, a
	}
	return "<", a, b
}

// junctionOperands writes the operands of a chain of && or ||, or of its negation, which is a chain of the other one.
func (p *printer) junctionOperands(e *expr, neg bool) (parts []string) {
	op, dual := operators.LogicalAnd, operators.LogicalOr
	if (e.name == dual) != neg {
		op, dual = dual, op
	}
	for _, s := range junctionParts(signed{e, neg}, op, dual, nil) {
		parts = append(parts, p.writeBoolean(s.e, s.neg))
	}
	return parts
}

// isCondition reports whether the value of e is a boolean or an error, as its form shows.
func (e *expr) isCondition() bool {
	if e.kind != call {
		return false
	}
	switch e.name {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals,
		operators.Greater, operators.GreaterEquals, operators.In:
		return true
	case "all", "exists":
		return e.binders() > 0
	}
	return e.isHas()
}

// comparesConditions reports whether e has an equality of two conditions, whose form is twice as long.
func (e *expr) comparesConditions() bool {
	return e.anyPart(func(x *expr) bool {
		return x.kind == call && (x.name == operators.Equals || x.name == operators.NotEquals) && x.args[0].isCondition() && x.args[1].isCondition()
	})
}

// writeEquality writes == or !=. Only with a scalar literal is a != b the negation of a == b: for lists and maps, a != b is true where a == b
// is an error.
func (p *printer) writeEquality(e *expr, neg bool) string {
	a, b := e.args[0], e.args[1]
	if a.isCondition() && b.isCondition() && !a.comparesConditions() && !b.comparesConditions() {
		not := func(x *expr) *expr { return &expr{kind: call, name: operators.LogicalNot, args: []*expr{x}} }
		if neg != (e.name == operators.NotEquals) {
			b = not(b)
		}
		both, neither := conjunctionOf([]*expr{a, b}), conjunctionOf([]*expr{not(a), not(b)})
		return p.writeBoolean(&expr{kind: call, name: operators.LogicalOr, args: []*expr{both, neither}}, false)
	}
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

// writeIn writes x in l. The order of literals in l makes no difference; if one part may be an error, it might.
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
	return operatorText("in", p.writeValue(x), "["+strings.Join(slices.Compact(vs), " ")+"]")
}

// writeConditional writes c ? a : b.
func (p *printer) writeConditional(e *expr, branch func(*expr) string) string {
	return operatorText("?", p.writeBoolean(e.args[0], false), branch(e.args[1]), branch(e.args[2]))
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

// writeValues writes expressions in their order at places that allow any value.
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

// writeCall writes a call at a place that allows any value. Forms that drop the check of a boolean, as !!x for x, are for places that need
// one.
func (p *printer) writeCall(e *expr) string {
	switch e.name {
	case operators.LogicalNot:
		return operatorText("!", p.writeBoolean(e.args[0], false)) // !!x is an error where x is no boolean, x is none
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
		return p.writeConditional(e, p.writeValue)
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

// writeConst writes a literal so that literals of different types never look alike: 1, 1u and the double f1.
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
