package celrule

// How are statements about self and the variables of macros written until they become formulas? For example, the body of self.l.all(x, x ==
// self.a) is a statement about two scopes.

import (
	"strconv"

	"sluice.dev/schema"
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

// idText writes a step for the names of opaque parts. The quotes keep a name with a dot from looking like two steps.
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

// withStep is the place one step further down. It shares no memory with p, because several places go on from one.
func (p place) withStep(s step) place {
	path := make([]step, len(p.path)+1)
	copy(path, p.path)
	path[len(p.path)] = s
	return place{p.scope, path}
}

// equalPlace reports whether both are the same position of the same scope. Two variables of macros over one list are
// two scopes.
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

// leafCond says that the place is present and its value satisfies f. The value of a scope itself is always present; a
// property may be missing, so that even the formula true says something of it.
func leafCond(at place, f logic.Formula) *cond {
	if isFalse(f) {
		return no
	}
	if len(at.path) == 0 && isTrue(f) {
		return yes
	}
	return &cond{op: opLeaf, at: at, f: f, scopes: 1 << at.scope, size: 1 + len(at.path)}
}

// isTrue and isFalse recognise the empty conjunction and disjunction, the forms of true and false that package logic
// uses.
func isTrue(f logic.Formula) bool  { a, ok := f.(logic.And); return ok && len(a) == 0 }
func isFalse(f logic.Formula) bool { o, ok := f.(logic.Or); return ok && len(o) == 0 }

// relationCond is a statement about values of several scopes, known by its id alone. Two with the same id and scopes
// mean the same.
func relationCond(scopes uint64, id string, neg bool) *cond {
	return &cond{op: opRel, scopes: scopes, id: id, neg: neg, rels: true, size: 1}
}

// one is true of lists with one item.
var one = logic.NumItems{Min: 1, Max: 1}

// ref is a place and the schema of its value.
type ref struct {
	at   place
	node *schema.Node
}

// alone says that an item is the only one of its list with its values of some keys.
type alone struct {
	list ref
	by   logic.UniqueBy // all ways to compare agree on these values; this is the one of a list-type map or set
}
