package celrule

import (
	"slices"

	"sluice.dev/schema/contain/internal/logic"
)

// What do several statements say together? A conjunction keeps of two parts the stronger one, and is false if two exclude each other. For example,
// "over 5" and "over 3" become "over 5".

func andConds(cs ...*cond) *cond { return joinConds(opAnd, opTrue, opFalse, yes, no, cs) }

func orConds(cs ...*cond) *cond { return joinConds(opOr, opFalse, opTrue, no, yes, cs) }

// junction collects the parts of a conjunction or a disjunction: flat, without repetition, and decided where two parts decide it.
type junction struct {
	op, unit, zero condOp // a part that is unit adds nothing, one that is zero decides
	parts          []*cond
}

// maxRelated bounds the parts that a new part is compared with.
const maxRelated = 32

// joinConds makes a conjunction or a disjunction; one is that of no parts, none that of parts that decide it.
func joinConds(op, unit, zero condOp, one, none *cond, cs []*cond) *cond {
	j := &junction{op: op, unit: unit, zero: zero}
	if !j.addAll(cs) {
		return none
	}
	switch len(j.parts) {
	case 0:
		return one
	case 1:
		return j.parts[0]
	}
	r := &cond{op: op, kids: j.parts, size: 1}
	for _, c := range j.parts {
		r.scopes |= c.scopes
		r.size += c.size
		r.rels = r.rels || c.rels
	}
	return r
}

// addAll adds parts. It returns false if they decide the junction.
func (j *junction) addAll(cs []*cond) bool {
	return !slices.ContainsFunc(cs, func(c *cond) bool { return !j.addPart(c) })
}

// addPart adds a part, unless one of those that are there implies it. It takes the place of one that it implies. Only so many parts are
// compared, because the work grows with their square.
func (j *junction) addPart(c *cond) bool {
	if c.op == j.unit || c.op == j.zero {
		return c.op == j.unit
	}
	if c.op == j.op {
		return j.addAll(c.kids)
	}
	if len(j.parts) <= maxRelated {
		for i, d := range j.parts {
			switch relateConds(j.op, d, c) {
			case same:
				return true
			case stronger:
				j.parts[i] = c
				return true
			case decides:
				return false
			case present:
				j.parts = append(j.parts[:i:i], j.parts[i+1:]...)
				return j.addPart(leafCond(c.at, logic.True))
			case unrelated:
			}
		}
	}
	j.parts = append(j.parts, c)
	return true
}

// notCond negates: the result is true if the place is absent or the formula is false there.
func notCond(c *cond) *cond {
	switch c.op {
	case opTrue:
		return no
	case opFalse:
		return yes
	case opAnd, opOr:
		kids := make([]*cond, len(c.kids))
		for i, k := range c.kids {
			kids[i] = notCond(k)
		}
		if c.op == opAnd {
			return orConds(kids...)
		}
		return andConds(kids...)
	case opRel:
		r := *c
		r.neg = !c.neg
		return &r
	case opLeaf:
	}
	parts := []*cond{leafCond(c.at, logic.Not(c.f))}
	for i, s := range slices.Backward(c.at.path) {
		up := place{c.at.scope, c.at.path[:i]}
		if s.only {
			parts = append(parts, leafCond(up, logic.Not(one)))
			continue
		}
		parts = append(parts, leafCond(up, logic.Lacks{Name: s.name}))
		if s.nullable {
			parts = append(parts, nullAt(up, s.name))
		}
	}
	return orConds(parts...)
}

// nullAt says that a property is there and null.
func nullAt(at place, name string) *cond {
	return leafCond(at, logic.And{logic.Has{Name: name}, logic.Prop{Name: name, F: logic.Kinds(logic.Null)}})
}
