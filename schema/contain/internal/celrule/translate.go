package celrule

// Of which values is a rule true? This file evaluates a rule over all values at once: an expression has several possible values, each with
// a condition. For example, self.a has the values of the property a if it is there, and its default if not.

import (
	"errors"
	"slices"

	"github.com/google/cel-go/common/operators"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

var (
	// errUnsupported says that a part has no exact translation: the smallest boolean expression around it becomes
	// opaque.
	errUnsupported = errors.New("not supported")
	// errBudget says that the whole rule becomes opaque.
	errBudget = errors.New("budget spent")
)

// Budgets of one translation.
const (
	maxWork     = 20_000 // evaluated parts and combined cases
	unitsInWork = 4      // units of [logic.Work] in one of them
	maxBranches = 64     // of one value
	maxCond     = 4_000  // size of one statement
)

// Translate returns the formula that is true of the values at which the rule, evaluated on creation, is true without an
// error. A rule that is not evaluated then (see [Rule.Transition]), and null at a nullable node, count as true.
func Translate(r *Rule, s Scope) logic.Formula {
	return translate(r, s, func(b boolV) *cond { return b.t })
}

// Failing returns the formula that is true of the values at which the evaluation of the rule on creation is an error. Where that is not
// known, an opaque part decides.
func Failing(r *Rule, s Scope) logic.Formula {
	if s.Spine == nil || newTranslator(s).neverFails(r) {
		return logic.False
	}
	return logic.Not(translate(r, s, func(b boolV) *cond { return orConds(b.t, b.f) }))
}

// translate returns the formula that part makes of the rule's value. It is true where the rule is not evaluated.
func translate(r *Rule, s Scope, part func(boolV) *cond) logic.Formula {
	if r.Transition(s.OptionalOldSelf) || s.Spine == nil {
		return logic.True
	}
	t := newTranslator(s)
	b, err := t.evalBoolean(r.root, t.top)
	var f logic.Formula
	if err == nil {
		f, err = t.emitWhole(part(b))
	}
	if err != nil {
		b, err = t.opaqueStatement(r.root, t.top)
		if err != nil {
			return logic.Opaque{ID: "rule " + r.Canonical() + " at " + t.wholeShape(t.nodes[0])}
		}
		f, _ = emitFormula(part(b))
	}
	if s.Spine.Nullable {
		f = logic.Or{logic.Kinds(logic.Null), f}
	}
	return f
}

// emitWhole turns the statement of a whole rule into a formula.
func (t *translator) emitWhole(c *cond) (logic.Formula, error) {
	if c.size > maxCond || len(t.asides) > 0 {
		return nil, errBudget
	}
	f, ok := emitFormula(c)
	if !ok {
		return nil, errUnsupported
	}
	return f, nil
}

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

func newTranslator(s Scope) *translator {
	t := &translator{s: s}
	n := s.Spine
	if s.Root || n.Embedded {
		n = withMeta(n)
	}
	t.nodes = []*schema.Node{n}
	t.ranges = []rangeOf{{}}
	v, err := t.loadPlace(place{}, n)
	if err == nil {
		t.top = &variable{name: self, val: v}
	}
	if s.OptionalOldSelf {
		t.top = &variable{name: oldSelf, val: singleBranch(optV{}), scope: fixed, up: t.top}
	}
	return t
}

func (t *translator) chargeWork(n int) error {
	if t.work += n; !t.s.Work.Charge(int64(n)*unitsInWork) || t.work > maxWork {
		return errBudget
	}
	return nil
}

// evalBoolean evaluates e at a place that needs a boolean. A part that cannot be translated becomes opaque.
func (t *translator) evalBoolean(e *expr, env *variable) (boolV, error) {
	b, err := t.tryBoolean(e, env)
	if err == nil && (b.t.size > maxCond || b.f.size > maxCond) {
		err = errBudget
	}
	if errors.Is(err, errUnsupported) || errors.Is(err, errMixed) {
		return t.approximateUnclear(e, env)
	}
	return b, err
}

// approximateUnclear makes a statement from an expression that is not understood. It may be known when the statement is true, and what is true
// then.
func (t *translator) approximateUnclear(e *expr, env *variable) (boolV, error) {
	t.unclear = append(t.unclear, e)
	b, err := t.opaqueStatement(e, env)
	if err != nil {
		return b, err
	}
	if enough := t.sumWithin(e, env); enough != nil {
		b.t = orConds(b.t, enough)
	}
	if n := neededFor(e); len(n) > 0 {
		unclear := len(t.unclear)
		if x, err := t.tryBoolean(conjunctionOf(n), env); err == nil {
			b.t = andConds(b.t, x.t)
		}
		t.unclear = t.unclear[:unclear]
	}
	return b, nil
}

func (t *translator) tryBoolean(e *expr, env *variable) (boolV, error) {
	if err := t.chargeWork(1); err != nil {
		return boolV{}, err
	}
	if e.kind == call {
		switch e.name {
		case operators.LogicalAnd, operators.LogicalOr:
			a, err := t.evalBoolean(e.args[0], env)
			if err != nil {
				return boolV{}, err
			}
			b, err := t.evalBoolean(e.args[1], env)
			if err != nil {
				return boolV{}, err
			}
			if e.name == operators.LogicalAnd {
				return boolV{andConds(a.t, b.t), orConds(a.f, b.f)}, nil
			}
			return boolV{orConds(a.t, b.t), andConds(a.f, b.f)}, nil
		case operators.LogicalNot:
			a, err := t.evalBoolean(e.args[0], env)
			return boolV{a.f, a.t}, err
		case operators.Conditional:
			c, err := t.evalBoolean(e.args[0], env)
			if err != nil {
				return boolV{}, err
			}
			a, err := t.evalBoolean(e.args[1], env)
			if err != nil {
				return boolV{}, err
			}
			b, err := t.evalBoolean(e.args[2], env)
			if err != nil {
				return boolV{}, err
			}
			return boolV{orConds(andConds(c.t, a.t), andConds(c.f, b.t)), orConds(andConds(c.t, a.f), andConds(c.f, b.f))}, nil
		}
	}
	v, err := t.evalValue(e, env)
	if err != nil {
		return boolV{}, err
	}
	if slices.ContainsFunc(v, func(b branch) bool { _, named := b.v.(termV); return named }) {
		t.unclear = append(t.unclear, e)
	}
	return t.asBool(v, func() (boolV, error) { return t.approximateUnclear(e, env) })
}

// asBool joins the branches of a boolean value. If the value is lost, the opaque statement decides.
func (t *translator) asBool(v value, opaque func() (boolV, error)) (boolV, error) {
	var ts, fs []*cond
	for _, b := range v {
		var bv boolV
		switch x := b.v.(type) {
		case boolV:
			bv = x
		case termV:
			if x.typ != "" && x.typ != "bool" {
				return boolV{}, errUnsupported
			}
			bv = t.predicateOf(x)
		case lostV:
			if opaque == nil {
				return boolV{}, errUnsupported
			}
			o, err := opaque()
			if err != nil {
				return boolV{}, err
			}
			bv = o
		default:
			if isDyn(b.v) {
				continue
			}
			return boolV{}, errUnsupported
		}
		ts = append(ts, andConds(b.g, bv.t))
		fs = append(fs, andConds(b.g, bv.f))
	}
	return boolV{orConds(ts...), orConds(fs...)}, nil
}

// evalValue evaluates e.
func (t *translator) evalValue(e *expr, env *variable) (value, error) {
	if err := t.chargeWork(1); err != nil {
		return nil, err
	}
	v, err := t.tryValue(e, env)
	if err != nil {
		return nil, err
	}
	v = t.standIn.replaceIn(v.mergeBranches())
	if len(v) > maxBranches {
		return nil, errUnsupported
	}
	size := 0
	for _, b := range v {
		size += b.g.size
		if bv, ok := b.v.(boolV); ok {
			size += bv.t.size + bv.f.size
		}
	}
	if size > 4*maxCond {
		return nil, errBudget
	}
	return v, t.chargeWork(len(v) + size/64)
}

func (t *translator) tryValue(e *expr, env *variable) (value, error) {
	switch e.kind {
	case literal:
		return literalValue(e.val)
	case ident:
		if v := env.findVariable(e.name); v != nil {
			return v.val, nil
		}
		switch e.name {
		case "int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type":
			return singleBranch(typeV(e.name)), nil
		}
		return nil, errUnsupported
	case sel:
		return t.evalField(e, env)
	case list:
		if e.optional != nil {
			return nil, errUnsupported
		}
		elems := make([]element, len(e.args))
		guard := yes
		for i, a := range e.args {
			v, err := t.evalValue(a, env)
			if err != nil {
				return nil, err
			}
			d, err := v.whenDefined()
			if err != nil {
				return nil, err
			}
			elems[i] = element{v, yes, no}
			guard = andConds(guard, d)
		}
		return value{}.addBranch(guard, listV{elems}), nil
	case mapping:
		if len(e.args) == 0 {
			return singleBranch(mapV{}), nil
		}
		return nil, errUnsupported
	case call:
		return t.evalCall(e, env)
	}
	return nil, errUnsupported
}

// literalValue returns the value of a literal. Those of type uint and bytes are not understood.
func literalValue(v any) (value, error) {
	switch v := v.(type) {
	case nil:
		return singleBranch(nullV{}), nil
	case bool:
		return singleBranch(boolConst(v)), nil
	case int64:
		return singleBranch(intV(v)), nil
	case float64:
		return singleBranch(dblV(v)), nil
	case string:
		return singleBranch(strV(v)), nil
	}
	return nil, errUnsupported
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

// evalField evaluates a selection.
func (t *translator) evalField(e *expr, env *variable) (value, error) {
	v, err := t.evalValue(e.args[0], env)
	if err != nil {
		return nil, err
	}
	return t.eachBranch(v, func(s sval) (value, error) { return t.selectField(s, e.name, false) })
}

// selectField selects from one value; if optional is set, the result is an optional one.
func (t *translator) selectField(s sval, name string, optional bool) (value, error) {
	switch s := s.(type) {
	case nullV:
		if optional {
			return singleBranch(optV{}), nil // neither list nor map
		}
		return nil, nil
	case optV:
		if s.v == nil {
			return singleBranch(s), nil
		}
		return t.selectField(s.v, name, true)
	case mapV:
		if optional {
			return singleBranch(optV{}), nil
		}
		return nil, nil
	case refV, constV:
		c, err := t.propertyOf(s, name)
		if err != nil {
			return nil, err
		}
		if !optional {
			return c.present, nil
		}
		out := make(value, 0, len(c.present)+1)
		for _, b := range c.present {
			out = out.addBranch(b.g, optV{b.v})
		}
		return out.addBranch(c.absent, optV{}), nil
	}
	return nil, errUnsupported
}

// evalHas evaluates the macro has.
func (t *translator) evalHas(e *expr, env *variable) (value, error) {
	f := e.args[0]
	v, err := t.evalValue(f.args[0], env)
	if err != nil {
		return nil, err
	}
	return t.eachBranch(v, func(s sval) (value, error) {
		switch s := s.(type) {
		case nullV, mapV:
			return singleBranch(boolConst(false)), nil
		case refV, constV:
			c, err := t.propertyOf(s, f.name)
			if err != nil {
				return nil, err
			}
			return singleBranch(boolV{c.whenPresent(), c.absent}), nil
		}
		return nil, errUnsupported
	})
}

// whenPresent says when the child is present, with any value.
func (c child) whenPresent() *cond {
	parts := make([]*cond, len(c.present))
	for i, b := range c.present {
		parts[i] = b.g
	}
	return orConds(parts...)
}
