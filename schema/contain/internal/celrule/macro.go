package celrule

// What is the value of a macro? For example, self.l.all(x, x > 1) demands something of all items, and self.l.filter(x, x > 1).size() counts
// items.
//
// A macro over a list that is written in the rule, or comes from a default, is unrolled. One over a list or a map at
// a place becomes a statement about all items or some item. If the body compares items with each other, fewitems.go
// decides short lists.

import (
	"errors"
)

// evalMacro evaluates a call that binds variables.
func (t *translator) evalMacro(e *expr, env *variable) (value, error) {
	n := e.binders()
	for _, v := range e.args[1 : n+1] {
		if v.kind != ident {
			return nil, errUnsupported
		}
	}
	rng, err := t.evalValue(e.args[0], env)
	if err != nil {
		return nil, err
	}
	name, bodies := e.name, e.args[n+1:]
	if name == "optMap" || name == "optFlatMap" {
		return t.eachBranch(rng, func(s sval) (value, error) { return t.optMap(name, s, e.args[1].name, bodies[0], env) })
	}
	names := []string{e.args[1].name}
	if n == 2 {
		names = append(names, e.args[2].name)
	}
	return t.eachBranch(rng, func(s sval) (value, error) {
		// A default is known item by item, so a macro over it is unrolled as one over a list written in the rule.
		if c, ok := s.(constV); ok {
			if l, ok := t.constList(c); ok {
				s = l
			}
		}
		if _, ok := s.(mapV); ok {
			s = listV{}
		}
		switch s := s.(type) {
		case listV:
			return t.macroList(name, s, names, bodies, env)
		case comprV:
			mark := len(t.asides)
			v, _, err := t.macroCompr(name, s.compr, bodies, bindVariables(names, s.elem, computed, env))
			if err != nil {
				t.asides = t.asides[:mark]
				return nil, err
			}
			// If nothing passes the filter, there is no error.
			return t.settleAssumptions(mark, s.scope, v, name, false, func() (boolV, error) { return t.opaqueStatement(e, env) })
		case refV:
			return t.macroAt(e, s.ref, names, bodies, env)
		}
		return nil, errUnsupported
	})
}

// macroAt evaluates a macro over a list or map at a place.
func (t *translator) macroAt(e *expr, over ref, names []string, bodies []*expr, env *variable) (value, error) {
	c, err := t.newCompr(over)
	if err != nil {
		return nil, err
	}
	mark := len(t.asides)
	vars := bindVariables(names, c.elem, c.scope, env)
	// With two variables, the first is the key and the second the value, which has a scope of its own.
	if len(names) == 2 && isMap(over.node) {
		elem, err := t.loadPlace(place{scope: c.scope + 1}, over.node.Additional)
		if err != nil {
			return nil, err
		}
		vars = bindVariables(names[:1], c.elem, c.scope, env)
		vars = bindVariables(names[1:], elem, c.scope+1, vars)
	}
	v, compares, err := t.macroCompr(e.name, c, bodies, vars)
	opaque := func() (boolV, error) { return t.opaqueStatement(e, env) }
	if errors.Is(err, errMixed) || errors.Is(err, errUnsupported) {
		if len(t.asides) > mark { // the bounds hold only under the assumptions
			err = errMixed
		}
		t.asides = t.asides[:mark]
		return t.decideFewItems(e, env, over, err)
	}
	if err != nil {
		return nil, err
	}
	return t.settleAssumptions(mark, c.scope, v, e.name, compares, opaque)
}

// optMap evaluates optMap and optFlatMap: the body for the value, or none where there is none.
func (t *translator) optMap(name string, s sval, varName string, body *expr, env *variable) (value, error) {
	o, ok := s.(optV)
	if !ok {
		return nil, errUnsupported
	}
	if o.v == nil {
		return singleBranch(o), nil
	}
	v, err := t.evalValue(body, &variable{name: varName, val: singleBranch(o.v), scope: computed, up: env})
	if err != nil || name == "optFlatMap" {
		return v, err
	}
	return t.eachBranch(v, optionalWith)
}

// bindVariables binds the variables of a macro over a list: the item, and before it its index, about which nothing is known.
func bindVariables(names []string, elem value, s scope, env *variable) *variable {
	if len(names) == 2 {
		env = &variable{name: names[0], val: singleBranch(lostV{}), scope: computed, up: env}
		names = names[1:]
	}
	return &variable{name: names[0], val: elem, scope: s, up: env}
}

// macroCompr evaluates a macro over a list or a map at a place. compares is set if its statement only compares an item with the others.
func (t *translator) macroCompr(name string, c *compr, bodies []*expr, v *variable) (out value, compares bool, err error) {
	switch name {
	case "all", "exists", "exists_one", "existsOne":
		if v.scope != computed {
			defer t.dropScopes(c)
		}
		if name == "existsOne" {
			name = "exists_one"
		}
		out, err = t.evalQuantified(name, c, func(value) (boolV, error) {
			b, err := t.evalBoolean(bodies[0], v)
			compares = err == nil && b.t.alone != nil
			return b, err
		})
		return out, compares, err
	case "filter", "map":
		return t.filterOrMap(name, c, bodies, v)
	}
	return nil, false, errUnsupported
}

// filterOrMap evaluates filter or map over a list or a map at a place, with the second result of macroCompr.
func (t *translator) filterOrMap(name string, c *compr, bodies []*expr, v *variable) (out value, compares bool, err error) {
	if c.same != nil {
		return nil, false, errMixed
	}
	// A copy: the range itself may be filtered by several macros.
	d := *c
	if name == "filter" || len(bodies) == 2 {
		p, err := t.evalBoolean(bodies[0], v)
		if err != nil {
			return nil, false, err
		}
		compares = p.t.alone != nil
		d.pred = boolV{andConds(c.pred.t, p.t), orConds(c.pred.f, andConds(c.pred.t, p.f))}
	}
	if name == "map" {
		if d.elem, err = t.evalValue(bodies[len(bodies)-1], v); err != nil {
			return nil, false, err
		}
	}
	d.strict = true
	valid, err := d.whenValid()
	// The predicate compares items with each other. How many pass may still be known, see countSame.
	if errors.Is(err, errMixed) && name == "filter" {
		if n, ok := t.countSame(&d); ok {
			d.same = n
			return singleBranch(comprV{&d}), compares, nil
		}
	}
	if err != nil {
		return nil, false, err
	}
	d.strict = false // said by the guard
	return value{}.addBranch(valid, comprV{&d}), compares, nil
}

// macroList evaluates a macro over a list written in the rule.
func (t *translator) macroList(name string, l listV, names []string, bodies []*expr, env *variable) (value, error) {
	switch name {
	case "all", "exists":
		return t.quantifyElements(name == "all", l, names, bodies[0], env)
	case "exists_one", "existsOne", "filter", "map":
	default:
		return nil, errUnsupported
	}
	guard, kept := yes, listV{}
	for i, e := range l.elems {
		next, valid, err := t.keepElement(name, e, bodies, l.bindElement(i, names, env))
		if err != nil {
			return nil, err
		}
		guard = andConds(guard, valid)
		kept.elems = append(kept.elems, next)
	}
	if name == "filter" || name == "map" {
		return value{}.addBranch(guard, kept), nil
	}
	n, err := t.countElements(kept)
	if err != nil {
		return nil, err
	}
	r, err := t.equalValues(n, singleBranch(intV(1)))
	return value{}.addBranch(guard, r), err
}

// bindElement binds the variables of a macro to the i-th element of a list, and to its index if there is a name for it.
func (l listV) bindElement(i int, names []string, env *variable) *variable {
	v := bindVariables(names, l.elems[i].v, computed, env)
	if len(names) == 2 && l.hasFixedElements() {
		v.up.val = singleBranch(intV(i))
	}
	return v
}

// quantifyElements evaluates all or exists over a list written in the rule.
func (t *translator) quantifyElements(all bool, l listV, names []string, body *expr, env *variable) (value, error) {
	var ts, fs []*cond
	for i, e := range l.elems {
		b, err := t.evalBoolean(body, l.bindElement(i, names, env))
		if err != nil {
			return nil, err
		}
		if all {
			ts, fs = append(ts, orConds(e.out, b.t)), append(fs, andConds(e.in, b.f))
		} else {
			ts, fs = append(ts, andConds(e.in, b.t)), append(fs, orConds(e.out, b.f))
		}
	}
	if all {
		return singleBranch(boolV{andConds(ts...), orConds(fs...)}), nil
	}
	return singleBranch(boolV{orConds(ts...), andConds(fs...)}), nil
}

// keepElement returns what filter, map or exists_one leave of an element of a list, and when that is no error.
func (t *translator) keepElement(name string, e element, bodies []*expr, v *variable) (next element, valid *cond, err error) {
	next, valid = e, yes
	if name != "map" || len(bodies) == 2 {
		b, err := t.evalBoolean(bodies[0], v)
		if err != nil {
			return next, nil, err
		}
		valid = orConds(e.out, b.t, b.f)
		next.in, next.out = andConds(e.in, b.t), orConds(e.out, b.f)
	}
	if name == "map" {
		if next.v, err = t.evalValue(bodies[len(bodies)-1], v); err != nil {
			return next, nil, err
		}
	}
	if name == "map" || name == "filter" {
		d, err := next.v.whenDefined()
		if err != nil {
			return next, nil, err
		}
		valid = andConds(valid, orConds(next.out, d))
	}
	return next, valid, nil
}
