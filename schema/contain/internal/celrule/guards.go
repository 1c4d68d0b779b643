package celrule

// Is a rule true whenever it is true without its guards? For example, has(x.a) && x.a == 'v' is x.a == 'v' of all values of which that is no
// error, so a rule that was given the guard refuses no more than before.

import (
	"slices"

	"github.com/google/cel-go/common/operators"

	"sluice.dev/schema"
)

// WithoutGuards returns a rule without has() that guards a use of the field. Where it is true, r is true as well; n is the node of r. A rule
// with optional values is left as it is: of these, a selection is no error where the field is missing.
func (r *Rule) WithoutGuards(n *schema.Node) *Rule {
	if r.root.usesOptionals() {
		return r
	}
	g := &guards{unreadable: map[string]bool{}}
	g.addUnreadable(n)
	root := g.withoutGuards(r.root, true)
	if root == r.root {
		return r
	}
	return newRule(root)
}

// usesOptionals reports whether e has an optional value in it: the namespace optional, a[?b], a.?b, or a macro for
// optionals.
func (e *expr) usesOptionals() bool {
	return e.anyPart(func(x *expr) bool {
		return x.kind == ident && x.name == "optional" || x.optional != nil ||
			x.kind == call && slices.Contains([]string{operators.OptSelect, operators.OptIndex, "optMap", "optFlatMap", "unwrapOpt"}, x.name)
	})
}

// guards knows the fields of which has() may be an error, because CEL cannot read some of their values.
type guards struct {
	unreadable map[string]bool
	all        bool // each field may be the key of a map with such values
}

// addUnreadable notes the fields of n and below it that CEL may be unable to read. It notes them by name alone: a
// rule may meet the name anywhere.
func (g *guards) addUnreadable(n *schema.Node) {
	if n == nil {
		return
	}
	for _, p := range n.Properties {
		g.unreadable[p.Name] = g.unreadable[p.Name] || mayBeUnreadable(p.Node)
		g.addUnreadable(p.Node)
	}
	g.all = g.all || n.Additional != nil && mayBeUnreadable(n.Additional)
	g.addUnreadable(n.Items)
	g.addUnreadable(n.Additional)
}

// mayBeUnreadable reports whether validation accepts values that CEL cannot read, as 1.0 for an integer.
func mayBeUnreadable(n *schema.Node) bool {
	return readable[n.Format] != "" || n.Type == "integer" || n.IntOrString
}

// neverFails reports whether e is has() of a field of a variable, and no error. It is false of null.
func (g *guards) neverFails(e *expr) bool {
	return e.isHas() && e.args[0].args[0].kind == ident && !g.all && !g.unreadable[fieldName(e.args[0])]
}

// withoutGuards returns an expression that is true only where e is, if positive is set, and otherwise one that has a value only where e has
// the same.
func (g *guards) withoutGuards(e *expr, positive bool) *expr {
	out := *e
	out.args = slices.Clone(e.args)
	changed := false
	for i, arg := range e.args {
		out.args[i] = g.withoutGuards(arg, positive && e.isPositiveIn(i))
		changed = changed || out.args[i] != arg
	}
	if e.kind == call {
		switch e.name {
		case operators.LogicalAnd, operators.LogicalOr:
			if short := withoutGuardedUses(&out); short != &out {
				return short
			}
		case operators.Conditional: // (c && has(x.a)) ? e : true is true where c ? e : true is
			if positive && out.args[2].val == true {
				if c, dropped := g.withoutHas(out.args[0]); dropped {
					return &expr{kind: call, name: e.name, args: []*expr{c, out.args[1], out.args[2]}}
				}
			}
		}
	}
	if !changed {
		return e
	}
	return &out
}

// isPositiveIn reports whether e is true if its operand i is true instead of another value, all else being equal.
func (e *expr) isPositiveIn(i int) bool {
	if e.kind != call {
		return false
	}
	switch e.name {
	case operators.LogicalAnd, operators.LogicalOr:
		return true
	case operators.Conditional:
		return i > 0
	case "all", "exists":
		return e.binders() == 1 && i == 2
	}
	return false
}

// withoutHas drops one has() of a conjunction.
func (g *guards) withoutHas(e *expr) (*expr, bool) {
	parts := junctionParts(signed{e, false}, operators.LogicalAnd, operators.LogicalOr, nil)
	i := slices.IndexFunc(parts, func(s signed) bool { return !s.neg && g.neverFails(s.e) })
	if i < 0 || len(parts) < 2 {
		return e, false
	}
	return joinSigned(operators.LogicalAnd, slices.Delete(parts, i, i+1)), true
}

// withoutGuardedUses drops has(x.a) of a conjunction, and !has(x.a) of a disjunction, of which another part is an error where x.a is missing. If
// that part is an error and the whole is none, another part has decided.
func withoutGuardedUses(e *expr) *expr {
	dual := operators.LogicalOr
	if e.name == dual {
		dual = operators.LogicalAnd
	}
	parts := junctionParts(signed{e, false}, e.name, dual, nil)
	kept := slices.DeleteFunc(slices.Clone(parts), func(s signed) bool {
		return s.e.isHas() && s.neg == (e.name == operators.LogicalOr) &&
			slices.ContainsFunc(parts, func(other signed) bool { return other.e != s.e && other.e.failsWithout(canonicalText(s.e.args[0])) })
	})
	if len(kept) == len(parts) {
		return e
	}
	return joinSigned(e.name, kept)
}

// failsWithout reports whether e is an error wherever the selection with this normal form is one.
func (e *expr) failsWithout(selection string) bool {
	switch {
	case e.kind == sel && canonicalText(e) == selection:
		return true
	case e.kind == sel:
		return e.args[0].failsWithout(selection)
	case e.kind != call || e.isHas():
		return false
	case e.binders() > 0:
		return e.args[0].failsWithout(selection)
	}
	switch e.name {
	case operators.LogicalAnd, operators.LogicalOr:
		return e.args[0].failsWithout(selection) && e.args[1].failsWithout(selection)
	case operators.Conditional:
		return e.args[0].failsWithout(selection) || e.args[1].failsWithout(selection) && e.args[2].failsWithout(selection)
	case operators.LogicalNot, operators.Negate, operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.In, operators.Index, "size", "startsWith", "endsWith", "contains", "matches":
		return slices.ContainsFunc(e.args, func(a *expr) bool { return a.failsWithout(selection) })
	}
	return false
}

// joinSigned joins expressions by an operator; at least one.
func joinSigned(op string, parts []signed) *expr {
	out := make([]*expr, len(parts))
	for i, s := range parts {
		if out[i] = s.e; s.neg {
			out[i] = &expr{kind: call, name: operators.LogicalNot, args: []*expr{s.e}}
		}
	}
	return joinedBy(op, out)
}
