package celrule

// Of which values is a rule true? This file evaluates a rule over all values at once: an expression has several possible values, each with
// a condition. For example, self.a has the values of the property a if it is there, and its default if not.
//
// A call is evaluated by the row of its function in function.go, for each possible value of its arguments. A part that cannot be expressed is
// an error, which the smallest boolean expression around it catches: it becomes an opaque part, about which something may still be known.

import (
	"errors"
	"slices"

	"github.com/google/cel-go/common/operators"

	"sluice.dev/schema/contain/internal/logic"
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
	// The API server does not evaluate such a rule on creation, and has no type for a value without a schema.
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
	// Rules are not evaluated for null.
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

// evalBoolean evaluates e at a place that needs a boolean. A part that cannot be translated becomes opaque.
func (t *translator) evalBoolean(e *expr, env *variable) (boolV, error) {
	unclear := len(t.unclear)
	b, err := t.tryBoolean(e, env)
	if err == nil && (b.t.size > maxCond || b.f.size > maxCond) {
		err = errBudget
	}
	if errors.Is(err, errUnsupported) || errors.Is(err, errMixed) {
		b, err = t.approximateUnclear(e, env)
	}
	if err == nil && len(t.unclear) > unclear { // whichever parts are opaque, the bounds of all parts may be enough
		if enough := t.sumWithin(e, env); enough != nil {
			b.t = orConds(b.t, enough)
		}
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
	if n := neededFor(e); len(n) > 0 {
		unclear := len(t.unclear)
		if x, err := t.tryBoolean(conjunctionOf(n), env); err == nil {
			b.t = andConds(b.t, x.t)
		}
		t.unclear = t.unclear[:unclear]
	}
	return b, nil
}

// tryBoolean evaluates e, or fails. The operators of logic have statements of their own for true and for false, because in CEL an operand that
// decides wins over an error of the other: neither is the negation of the other.
func (t *translator) tryBoolean(e *expr, env *variable) (boolV, error) {
	if err := t.chargeWork(1); err != nil {
		return boolV{}, err
	}
	if e.kind == call {
		switch e.name {
		case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional:
			parts := make([]boolV, len(e.args))
			for i, a := range e.args {
				b, err := t.evalBoolean(a, env)
				if err != nil {
					return boolV{}, err
				}
				parts[i] = b
			}
			return combinedBy(e.name, parts), nil
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

// combinedBy is what an operator of logic gives for its operands.
func combinedBy(operator string, parts []boolV) boolV {
	a := parts[0]
	switch operator {
	case operators.LogicalNot:
		return boolV{a.f, a.t}
	case operators.LogicalAnd:
		return boolV{andConds(a.t, parts[1].t), orConds(a.f, parts[1].f)}
	case operators.LogicalOr:
		return boolV{orConds(a.t, parts[1].t), andConds(a.f, parts[1].f)}
	}
	then, otherwise := parts[1], parts[2]
	return boolV{orConds(andConds(a.t, then.t), andConds(a.f, otherwise.t)), orConds(andConds(a.t, then.f), andConds(a.f, otherwise.f))}
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
	// Branches multiply with each call, so their size is bounded here, before they are combined further.
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

// tryValue is evalValue without its bounds.
func (t *translator) tryValue(e *expr, env *variable) (value, error) {
	switch e.kind {
	case literal:
		return literalValue(e.val)
	case ident:
		// A variable hides the name of a type.
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

// evalField evaluates a selection.
func (t *translator) evalField(e *expr, env *variable) (value, error) {
	v, err := t.evalValue(e.args[0], env)
	if err != nil {
		return nil, err
	}
	return t.eachBranch(v, func(s sval) (value, error) { return t.selectField(s, e.name, false) })
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

// evalCall evaluates a call.
func (t *translator) evalCall(e *expr, env *variable) (value, error) {
	switch e.name {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
		b, err := t.evalBoolean(e, env)
		return singleBranch(b), err
	case operators.Conditional:
		return t.evalConditional(e, env)
	case "has":
		if e.isHas() {
			return t.evalHas(e, env)
		}
	}
	if e.binders() > 0 {
		return t.evalMacro(e, env)
	}
	if e.member && e.args[0].kind == ident && env.findVariable(e.args[0].name) == nil {
		return t.evalNamespaced(e, env)
	}
	args, err := t.evalAll(e.args, env)
	if err != nil {
		return nil, err
	}
	switch len(args) {
	case 1:
		return t.eachBranch(args[0], func(a sval) (value, error) { return t.evalUnary(e, a) })
	case 2:
		return t.evalPair(e, args[0], args[1])
	case 3:
		return t.eachBranch(args[0], func(a sval) (value, error) {
			return t.eachPair(args[1], args[2], func(b, c sval) (value, error) {
				return t.evalTernary(e, a, b, c)
			})
		})
	}
	return nil, errUnsupported
}

// evalPair evaluates a call with two arguments, each pair of their values by itself, unless the function needs all values of both.
func (t *translator) evalPair(e *expr, a, b value) (value, error) {
	switch e.name {
	case "or", "orValue":
		return t.orElse(e.name, a, b)
	case operators.Add:
		if v, ok := addSums(a, b); ok {
			return v, nil
		}
	}
	return t.eachPair(a, b, func(a, b sval) (value, error) { return t.evalBinary(e, a, b) })
}

// evalConditional evaluates c ? a : b.
func (t *translator) evalConditional(e *expr, env *variable) (value, error) {
	c, err := t.evalBoolean(e.args[0], env)
	if err != nil {
		return nil, err
	}
	v, err := t.evalAll(e.args[1:], env)
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(v[0].guardedBy(c.t)), v[1].guardedBy(c.f)...), nil
}

// evalAll evaluates several expressions in their order. The first that fails stops it: no call is understood without
// all of its arguments.
func (t *translator) evalAll(exprs []*expr, env *variable) ([]value, error) {
	out := make([]value, len(exprs))
	for i, x := range exprs {
		v, err := t.evalValue(x, env)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// evalNamespaced evaluates functions with a dot in their name: optional.of, format.dns1123Label and the like.
func (t *translator) evalNamespaced(e *expr, env *variable) (value, error) {
	ns, args := e.args[0].name, e.args[1:]
	switch {
	case ns == "optional" && e.name == "none" && len(args) == 0:
		return singleBranch(optV{}), nil
	case ns == "optional" && e.name == "of" && len(args) == 1:
		v, err := t.evalValue(args[0], env)
		if err != nil {
			return nil, err
		}
		return t.eachBranch(v, optionalWith)
	case ns == "format" && len(args) == 0:
		return singleBranch(formatV(e.name)), nil
	}
	return nil, errUnsupported
}

// orElse evaluates a.or(b) and a.orValue(b); b counts only where a is none.
func (t *translator) orElse(name string, a, b value) (value, error) {
	return t.eachBranch(a, func(s sval) (value, error) {
		o, ok := s.(optV)
		switch {
		case !ok:
			return nil, errUnsupported
		case o.v == nil:
			return b, nil
		case name == "or":
			return singleBranch(o), nil
		}
		return singleBranch(o.v), nil
	})
}

// evalUnary, evalBinary and evalTernary evaluate a call for one value of each argument, by the row of the function. A
// function without a row for so many arguments only names its result.
func (t *translator) evalUnary(e *expr, a sval) (value, error) {
	if f := functionsByName()[e.name]; f.one != nil {
		return f.one(t, e, a)
	}
	return t.opaqueFunction(e, a)
}

func (t *translator) evalBinary(e *expr, a, b sval) (value, error) {
	if f := functionsByName()[e.name]; f.two != nil {
		return f.two(t, e, a, b)
	}
	return t.opaqueFunction(e, a, b)
}

func (t *translator) evalTernary(e *expr, a, b, c sval) (value, error) {
	if f := functionsByName()[e.name]; f.three != nil {
		return f.three(t, e, a, b, c)
	}
	return t.opaqueFunction(e, a, b, c)
}

// sumWithin returns a condition that makes a comparison of a sum with a constant true: each of the n parts is at most the n-th part of
// the constant. It is nil if e is no such comparison, or if nothing is known about it. An example of a sum is
// (self.size() > 0 ? self[0].l.size() : 0) + (self.size() > 1 ? self[1].l.size() : 0).
func (t *translator) sumWithin(e *expr, env *variable) *cond {
	sum, most, ok := atMostConst(e)
	if !ok || most < 0 {
		return nil
	}
	parts := appendSummands(sum, nil)
	if len(parts) < 2 {
		return nil
	}
	enough := eachWithin(parts, most/int64(len(parts)))
	conds := make([]*cond, len(enough))
	for i, x := range enough {
		b, err := t.evalBoolean(x, env)
		if err != nil {
			return nil
		}
		conds[i] = b.t
	}
	return andConds(conds...)
}
