package celrule

// Which formula says what a statement about one scope says? For example, self.a > 1 && self.a < 9 becomes one demand on the property a.
//
// Only statements about one scope become formulas. Those about several are taken apart by quantify.go before, or stay
// opaque. Statements about one property are gathered below one demand on it, because the solver looks at a property
// once for each demand.

import (
	"fmt"

	"sluice.dev/schema/contain/internal/logic"
)

// emitFormula turns a statement about one scope into a formula about its value. It fails for relations between scopes.
func emitFormula(c *cond) (logic.Formula, bool) {
	switch c.op {
	case opTrue:
		return logic.True, true
	case opFalse:
		return logic.False, true
	case opLeaf:
		return emitLeaves(true, []*cond{c}, 0), true
	case opRel:
		return nil, false
	case opAnd, opOr:
	}
	var leaves, rest []*cond
	for _, k := range c.kids {
		if k.op == opLeaf {
			leaves = append(leaves, k)
		} else {
			rest = append(rest, k)
		}
	}
	var out []logic.Formula
	if len(leaves) > 0 {
		out = appendFlat(c.op == opAnd, out, emitLeaves(c.op == opAnd, leaves, 0))
	}
	for _, k := range rest {
		f, ok := emitFormula(k)
		if !ok {
			return nil, false
		}
		out = appendFlat(c.op == opAnd, out, f)
	}
	return joinFormulas(c.op == opAnd, out), true
}

// emitLeaves joins leaves whose paths agree up to depth, so that all statements about a property are in one place.
func emitLeaves(conj bool, leaves []*cond, depth int) logic.Formula {
	var out []logic.Formula
	var names []step
	groups := map[step][]*cond{}
	for _, l := range leaves {
		// The statement is about the value that the walk has reached; the others go on to a part of it.
		if len(l.at.path) == depth {
			out = appendFlat(conj, out, l.f)
			continue
		}
		s := l.at.path[depth]
		if groups[s] == nil {
			names = append(names, s)
		}
		groups[s] = append(groups[s], l)
	}
	for _, s := range names {
		f := emitLeaves(conj, groups[s], depth+1)
		// Null counts as absent here, so whatever is said of the value also says that it is not null.
		if s.nullable {
			f = joinFormulas(true, appendFlat(true, []logic.Formula{logic.Kinds(logic.NonNull)}, f))
		}
		has := logic.Formula(logic.Has{Name: s.name})
		switch {
		// The only item of a list: that there is one and no other is a part of the statement.
		case s.only:
			has = one
			if !isTrue(f) {
				has = logic.And{one, logic.Items{F: f}}
			}
		case !isTrue(f):
			has = logic.And{has, logic.Prop{Name: s.name, F: f}}
		}
		out = appendFlat(conj, out, has)
	}
	return joinFormulas(conj, out)
}

// appendFlat appends f, or its parts if it is a junction of the same kind, so that nested conjunctions become one.
func appendFlat(conj bool, out []logic.Formula, f logic.Formula) []logic.Formula {
	if a, ok := f.(logic.And); ok && conj {
		return append(out, a...)
	}
	if o, ok := f.(logic.Or); ok && !conj {
		return append(out, o...)
	}
	return append(out, f)
}

// joinFormulas is the conjunction or the disjunction of the formulas, or the only one itself.
func joinFormulas(conj bool, fs []logic.Formula) logic.Formula {
	if len(fs) == 1 {
		return fs[0]
	}
	if conj {
		return logic.And(fs)
	}
	return logic.Or(fs)
}

// formulaText writes a formula, for IDs.
func formulaText(f logic.Formula) string { return fmt.Sprintf("%#v", f) }
