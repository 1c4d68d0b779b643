package celrule

// Does the form of some rules show that another one is true whenever they are? For example, self > oldSelf implies self >= oldSelf.

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/operators"
)

// ImpliedBy reports whether the forms of the rules show that the rule evaluates to true whenever all of olds do, on values of the same
// types. False means nothing. It is for rules without a translation, above all for those about updates.
//
// If an old rule is true, each of its conjuncts is true, and so is at least one disjunct of each conjunct. A true disjunct makes the
// new rule's disjunction true, whatever the other operands are, because in CEL a deciding operand wins over an error. Also, a < b
// implies a <= b and a != b, and a < 1 implies a < 2, because a true comparison is no error. If scalar is set, self is a scalar of one type. Then, without
// dyn(), a == b implies a <= b and b == a. (For lists it does not: a set is equal to lists that are not equal to it, and not all values
// can be compared.)
func (r *Rule) ImpliedBy(olds []*Rule, scalar bool) bool {
	scalar = scalar && !usesDyn(r.root)
	var facts [][]atom
	for _, o := range olds {
		scalar = scalar && !usesDyn(o.root)
		facts = append(facts, o.said()...)
	}
	left := maxDistributed
	return followsFrom(signed{r.root, false}, facts, scalar, &left)
}

// saidBy are the disjuncts of the conjuncts of a rule.
func saidBy(root *expr) [][]atom {
	var out [][]atom
	for _, c := range junctionParts(signed{root, false}, operators.LogicalAnd, operators.LogicalOr, nil) {
		out = append(out, atomsOf(junctionParts(c, operators.LogicalOr, operators.LogicalAnd, nil)))
	}
	return out
}

// signed is an expression, or its negation.
type signed struct {
	e   *expr
	neg bool
}

// junctionParts are the operands of a chain of the operator, which negation turns into a chain of dual. Negations are pushed down.
func junctionParts(s signed, op, dual string, out []signed) []signed {
	for s.e.kind == call && s.e.name == operators.LogicalNot {
		s = signed{s.e.args[0], !s.neg}
	}
	if s.e.kind != call || s.e.name != op && s.e.name != dual || (s.e.name == op) == s.neg {
		return append(out, s)
	}
	for _, a := range s.e.args {
		out = junctionParts(signed{a, s.neg}, op, dual, out)
	}
	return out
}

// heldParts are the parts that certainly hold if e is true or, with is unset, false.
func heldParts(e *expr, is bool) []signed {
	return junctionParts(signed{e, !is}, operators.LogicalAnd, operators.LogicalOr, nil)
}

// followsFrom reports whether s is true whenever each of the facts has a true disjunct.
func followsFrom(s signed, facts [][]atom, scalar bool, left *int) bool {
	if cs := junctionParts(s, operators.LogicalAnd, operators.LogicalOr, nil); len(cs) > 1 {
		return !slices.ContainsFunc(cs, func(c signed) bool { return !followsFrom(c, facts, scalar, left) })
	}
	return oneFollowsFrom(junctionParts(s, operators.LogicalOr, operators.LogicalAnd, nil), facts, scalar, left)
}

// maxDistributed bounds the disjunctions that are made of those of a rule whose operands are conjunctions.
const maxDistributed = 64

// oneFollowsFrom reports whether one of the operands of a disjunction is true whenever each of the facts has a true disjunct. An operand that is a
// conjunction is distributed: a || b && c is true whenever a || b and a || c are.
func oneFollowsFrom(ds []signed, facts [][]atom, scalar bool, left *int) bool {
	if len(ds) > 1 && slices.ContainsFunc(ds, func(d signed) bool { return followsFrom(d, facts, scalar, left) }) {
		return true
	}
	goals := atomsOf(ds)
	if slices.ContainsFunc(facts, func(fact []atom) bool {
		return !slices.ContainsFunc(fact, func(a atom) bool {
			return !slices.ContainsFunc(goals, func(g atom) bool { return a.impliesAtom(g, scalar) })
		})
	}) {
		return true
	}
	for i, d := range ds {
		cs := junctionParts(d, operators.LogicalAnd, operators.LogicalOr, nil)
		if len(cs) < 2 {
			continue
		}
		if *left -= len(cs); *left < 0 {
			return false
		}
		rest := slices.Delete(slices.Clone(ds), i, i+1)
		return !slices.ContainsFunc(cs, func(c signed) bool {
			return !oneFollowsFrom(junctionParts(c, operators.LogicalOr, operators.LogicalAnd, slices.Clone(rest)), facts, scalar, left)
		})
	}
	return false
}

// atomsOf returns the normal forms of parts. Comparisons are also split, because a < b implies other comparisons of a and b.
func atomsOf(ss []signed) []atom {
	out := make([]atom, len(ss))
	for i, s := range ss {
		p := &printer{dyn: usesDyn(s.e)}
		out[i].text = p.writeBoolean(s.e, s.neg)
		if s.e.kind != call {
			continue
		}
		if parts := junctionParts(s, operators.LogicalAnd, operators.LogicalOr, nil); len(parts) > 1 {
			out[i].parts = atomsOf(parts)
		}
		switch s.e.name {
		case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
			out[i].op, out[i].a, out[i].b = p.asLess(s.e, s.neg)
			less, more := s.e.args[0], s.e.args[1]
			if out[i].a != p.writeValue(less) {
				less, more = more, less
			}
			if out[i].left, out[i].right = constantOf(less), constantOf(more); isNumber(out[i].right) {
				out[i].a = p.writeSum(less)
			} else if isNumber(out[i].left) {
				out[i].b = p.writeSum(more)
			}
		case "isLessThan", "isGreaterThan": // of quantities and versions
			if s.e.member && len(s.e.args) == 2 {
				out[i].setOrder(s, p)
			}
		case operators.Equals, operators.NotEquals:
			if !s.neg { // a == b may be an error where a != b is none
				out[i].op = map[string]string{operators.Equals: "==", operators.NotEquals: "!="}[s.e.name]
				out[i].a, out[i].b = p.writeValue(s.e.args[0]), p.writeValue(s.e.args[1])
			}
		}
	}
	return out
}

// setOrder describes a call of isLessThan or isGreaterThan as a comparison. Both are total orders.
func (a *atom) setOrder(s signed, p *printer) {
	less, more := s.e.args[0], s.e.args[1]
	if s.e.name == "isGreaterThan" {
		less, more = more, less
	}
	if a.op = "<"; s.neg {
		a.op, less, more = "<=", more, less
	}
	a.a, a.b, a.left, a.right = p.writeValue(less), p.writeValue(more), constantOf(less), constantOf(more)
}

// impliesAtom reports whether b is true whenever a is.
func (a atom) impliesAtom(b atom, scalar bool) bool {
	if a.text == b.text || a.impliesBound(b) || slices.ContainsFunc(a.parts, func(p atom) bool { return p.impliesAtom(b, scalar) }) {
		return true
	}
	along, across := a.a == b.a && a.b == b.b, scalar && a.a == b.b && a.b == b.a
	switch a.op + " implies " + b.op {
	case "< implies <=":
		return along
	case "< implies !=":
		return along || across
	case "== implies <=", "== implies ==":
		return scalar && (along || across) && !strings.Contains(a.text, "null")
	case "!= implies !=":
		return across
	}
	return false
}
