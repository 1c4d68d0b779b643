package celrule

import (
	"errors"
	"slices"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// What does the translation of a rule carry along? It knows the schema of each value that a name is bound to. For example, in self.l.all(x, x > self.a)
// scope 0 is self and scope 1 an item of l.

// Scope is the place of a rule.
type Scope struct {
	// Spine is the structural node with the rule. For a rule inside allOf it is the node outside, whose types count.
	Spine *schema.Node
	// Root says that the node is the root of a custom resource or of an embedded one: there only apiVersion, kind and
	// metadata with name and generateName are visible besides what the schema declares.
	Root bool
	// OptionalOldSelf says that the rule has optionalOldSelf: true. Then the translation is for a creation, with oldSelf as
	// optional.none().
	OptionalOldSelf bool
	// Checker decides patterns for values that come from defaults.
	Checker logic.Checker
	// Work is charged for the translation. Once it is spent, the rest becomes opaque.
	Work *logic.Work
}

// Budgets of one translation.
const (
	maxWork     = 20_000 // evaluated parts and combined cases
	unitsInWork = 4      // units of [logic.Work] in one of them
	maxBranches = 64     // of one value
	maxCond     = 4_000  // size of one statement
)

// variable is a name that is bound.
type variable struct {
	name  string
	val   value
	scope scope // whose value it is, or one of the following
	up    *variable
}

const (
	computed scope = -1 // the value is computed
	fixed    scope = -2 // it is a constant
)

// findVariable returns the innermost variable of that name, nil if no macro binds it and it is not self or oldSelf.
func (v *variable) findVariable(name string) *variable {
	for ; v != nil; v = v.up {
		if v.name == name {
			return v
		}
	}
	return nil
}

type translator struct {
	s      Scope
	top    *variable
	nodes  []*schema.Node // of each scope
	ranges []rangeOf      // of each scope
	work   int
	metas  map[*schema.Node]*schema.Node
	shapes map[*schema.Node]string
	asides []aside
	// standIn, unless nil, takes the place of a list while a macro is decided for lists of few items.
	standIn *listStandIn
	// fresh is set where values may have fields that only the newer of two nodes has.
	fresh bool
	// unclear are the parts that only got a name, even if a part around them replaced them.
	unclear []*expr
}

// rangeOf describes the values of a scope.
type rangeOf struct {
	of  ref
	key bool // keys of the map; the next scope has the values
}

// aside is an assumption about a list.
type aside struct {
	of   scope // of the items that are compared with the others
	that *cond
	// strict is set if the comparison of any item with one that breaks the assumption is an error: no guard such as has() decides it.
	strict bool
}

// listStandIn is a list of the same item, written in place of a list at a place.
type listStandIn struct {
	of ref
	by listV
}

// replaceIn puts the stand-in in the place of the list.
func (l *listStandIn) replaceIn(v value) value {
	if l == nil {
		return v
	}
	var out value
	for i, b := range v {
		r, ok := b.v.(refV)
		if !ok || r.node != l.of.node || !r.at.equalPlace(l.of.at) {
			continue
		}
		if out == nil {
			out = slices.Clone(v)
		}
		out[i].v = l.by
	}
	if out == nil {
		return v
	}
	return out
}

// chargeWork charges for n parts or cases. It fails with errBudget once this translation, or the budget of all, is
// spent.
func (t *translator) chargeWork(n int) error {
	if t.work += n; !t.s.Work.Charge(int64(n)*unitsInWork) || t.work > maxWork {
		return errBudget
	}
	return nil
}

// seenAsChild returns the node as CEL sees it as a child.
func (t *translator) seenAsChild(n *schema.Node) *schema.Node {
	if n == nil || !n.Embedded {
		return n
	}
	m := t.metas[n]
	if m == nil {
		m = withMeta(n)
		if t.metas == nil {
			t.metas = map[*schema.Node]*schema.Node{}
		}
		t.metas[n] = m
	}
	return m
}

// eachBranch evaluates f for each branch and joins the results. A failed evaluation loses only that branch.
func (t *translator) eachBranch(v value, f func(sval) (value, error)) (value, error) {
	var out value
	for _, b := range v {
		if _, lost := b.v.(lostV); lost {
			out = out.addBranch(b.g, lostV{})
			continue
		}
		w, err := f(b.v)
		if errors.Is(err, errUnsupported) || errors.Is(err, errMixed) {
			w, err = singleBranch(lostV{}), nil
		}
		if err != nil {
			return nil, err
		}
		if err := t.chargeWork(len(w)); err != nil {
			return nil, err
		}
		out = append(out, w.guardedBy(b.g)...)
	}
	return out, nil
}

// eachPair evaluates f for each pair of branches.
func (t *translator) eachPair(v, w value, f func(a, b sval) (value, error)) (value, error) {
	return t.eachBranch(v, func(a sval) (value, error) {
		return t.eachBranch(w, func(b sval) (value, error) { return f(a, b) })
	})
}
