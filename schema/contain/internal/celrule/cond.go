package celrule

// How are statements about self and the variables of macros written until they become formulas? For example, the body of self.l.all(x, x ==
// self.a) is a statement about two scopes.

import (
	"slices"
	"strconv"

	"sluice.dev/schema/contain/internal/logic"
)

// scope numbers a value in a rule: 0 is self, macros bind the others.
type scope = int

// maxScopes bounds how many variables may be bound at once.
const maxScopes = 64

// step leads from an object to one of its properties, or from a list to its only item.
type step struct {
	name string
	// nullable: a null counts as absent here (nullable properties of objects).
	nullable bool
	// only: the item of a list that has one item, and no other.
	only bool
}

func (s step) idText() string {
	if s.only {
		return "[only]"
	}
	return "." + strconv.Quote(s.name)
}

// place is a position in the value of a scope.
type place struct {
	scope scope
	path  []step
}

func (p place) withStep(s step) place {
	path := make([]step, len(p.path)+1)
	copy(path, p.path)
	path[len(p.path)] = s
	return place{p.scope, path}
}

func (p place) equalPlace(q place) bool {
	if p.scope != q.scope || len(p.path) != len(q.path) {
		return false
	}
	for i, s := range p.path {
		if s != q.path[i] {
			return false
		}
	}
	return true
}

type condOp uint8

const (
	opTrue condOp = iota
	opFalse
	opAnd
	opOr
	opLeaf
	opRel
)

// cond is a statement about the values of several scopes. It is either true or false, never an error.
type cond struct {
	op     condOp
	kids   []*cond
	at     place         // of a leaf
	f      logic.Formula // of a leaf: the place is present, and its value satisfies this formula
	scopes uint64        // which scopes are mentioned
	id     string        // of a relation between several values, which formulas cannot express directly
	neg    bool
	equal  *[2]ref // of a relation that says that the scalars at two places are equal
	alone  *alone  // of a relation that says that an item is the only one of its kind
	rels   bool    // it is or has a relation
	size   int
}

var (
	yes = &cond{op: opTrue, size: 1}
	no  = &cond{op: opFalse, size: 1}
)

func leafCond(at place, f logic.Formula) *cond {
	if isFalse(f) {
		return no
	}
	if len(at.path) == 0 && isTrue(f) {
		return yes
	}
	return &cond{op: opLeaf, at: at, f: f, scopes: 1 << at.scope, size: 1 + len(at.path)}
}

func isTrue(f logic.Formula) bool  { a, ok := f.(logic.And); return ok && len(a) == 0 }
func isFalse(f logic.Formula) bool { o, ok := f.(logic.Or); return ok && len(o) == 0 }

func relationCond(scopes uint64, id string, neg bool) *cond {
	return &cond{op: opRel, scopes: scopes, id: id, neg: neg, rels: true, size: 1}
}

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

// one is true of lists with one item.
var one = logic.NumItems{Min: 1, Max: 1}

// nullAt says that a property is there and null.
func nullAt(at place, name string) *cond {
	return leafCond(at, logic.And{logic.Has{Name: name}, logic.Prop{Name: name, F: logic.Kinds(logic.Null)}})
}
