package celrule

import "sluice.dev/schema"

// Is a value in a list or a map, and what holds for its members? For example, self.k in ['a', 'b'] is an enum of the property k.
//
// A quantified statement may be known only in part: certainly true of some lists, and perhaps of others. Both bounds
// are kept, see mixed.

// evalQuantified evaluates all, exists or exists_one of the statement f about an element.
func (t *translator) evalQuantified(name string, c *compr, f func(value) (boolV, error)) (value, error) {
	if c.same != nil {
		return nil, errMixed
	}
	valid, err := c.whenValid()
	if err != nil {
		return nil, err
	}
	b, err := f(c.elem)
	if err != nil {
		return nil, err
	}
	// Items that do not count decide nothing: one that the filter drops neither makes all false nor exists true.
	in, out := c.pred.t, c.pred.f
	whenTrue, whenFalse := c.newQuantifier(name == "all"), c.newQuantifier(name != "all")
	switch name {
	case "all":
		b = boolV{orConds(out, andConds(in, b.t)), andConds(in, b.f)}
	case "exists":
		b = boolV{andConds(in, b.t), orConds(out, andConds(in, b.f))}
	default:
		d := *c
		d.pred = boolV{andConds(in, b.t), orConds(out, andConds(in, b.f))}
		// Only the number counts, so the elements are replaced by a value that is no error. An error of the body is one
		// of the whole.
		d.elem, d.strict = singleBranch(nullV{}), true
		n, err := t.comprSize(&d)
		if err != nil {
			return nil, err
		}
		v, err := t.eachBranch(n.guardedBy(valid), func(s sval) (value, error) {
			r, err := t.equalityOf(s, intV(1))
			return singleBranch(r), err
		})
		return v, err
	}
	var sure, maybe boolV
	if sure.t, maybe.t, err = whenTrue.quantifyBounds(b.t); err != nil {
		return nil, err
	}
	if sure.f, maybe.f, err = whenFalse.quantifyBounds(b.f); err != nil {
		return nil, err
	}
	// No formula says it exactly. The caller decides short lists, and uses the bounds for others.
	if sure != maybe {
		return nil, mixed{
			boolV{andConds(valid, sure.t), andConds(valid, sure.f)},
			boolV{andConds(valid, maybe.t), andConds(valid, maybe.f)},
		}
	}
	return value{}.addBranch(valid, sure), nil
}

// evalIn evaluates a in b.
func (t *translator) evalIn(_ *expr, a, b sval) (value, error) {
	switch b := b.(type) {
	case mapV:
		return singleBranch(boolConst(false)), nil
	case listV:
		return t.inList(a, b)
	case constV:
		if l, ok := t.constList(b); ok {
			return t.inList(a, l)
		}
		if s, ok := a.(strV); ok && isMap(b.node) {
			return t.hasKey(b, s)
		}
	case refV:
		switch {
		case isMap(b.node):
			return t.inMap(a, b)
		case b.node.Type == "array":
			return t.inArray(a, b)
		}
	case comprV:
		return t.evalQuantified("exists", b.compr, func(v value) (boolV, error) { return t.equalValues(v, singleBranch(a)) })
	}
	return nil, errUnsupported
}

// inMap evaluates a in b for a map at a place. The present key of a macro over the map is in it, if its value is one that CEL reads.
func (t *translator) inMap(a sval, b refV) (value, error) {
	if s, ok := a.(strV); ok {
		return t.hasKey(b, s)
	}
	// A value that CEL cannot read makes the lookup an error even for a key of the map: an integer that is a float.
	if k, ok := t.keyOf(a); ok && k.of.at.equalPlace(b.at) && b.node.Additional.Type != "integer" && !b.node.Additional.IntOrString {
		return singleBranch(boolConst(true)), nil
	}
	return t.partialPredicate("in", a, b)
}

func (t *translator) hasKey(m sval, key strV) (value, error) {
	c, err := t.propertyOf(m, string(key))
	return singleBranch(boolV{c.whenPresent(), c.absent}), err
}

// inList evaluates a in b for a list written in the rule: a is equal to an element that the list has. An enum of strings becomes one demand.
func (t *translator) inList(a sval, b listV) (value, error) {
	if consts, ok := b.constantStrings(); ok {
		if r, ok := t.amongStrings(a, consts); ok {
			return singleBranch(r), nil
		}
	}
	ts, fs := []*cond{}, []*cond{}
	for _, e := range b.elems {
		r, err := t.equalValues(singleBranch(a), e.v)
		if err != nil {
			return nil, err
		}
		ts = append(ts, andConds(e.in, r.t))
		fs = append(fs, orConds(e.out, r.f))
	}
	return singleBranch(boolV{orConds(ts...), andConds(fs...)}), nil
}

// constantStrings returns the elements of a list of string constants.
func (l listV) constantStrings() ([]string, bool) {
	out := make([]string, len(l.elems))
	for i, e := range l.elems {
		v, _ := e.onlyValue()
		s, ok := v.(strV)
		if !ok {
			return nil, false
		}
		out[i] = string(s)
	}
	return out, true
}

// inArray evaluates a in b for a list at a place.
func (t *translator) inArray(a sval, b refV) (value, error) {
	if !isConstant(a) {
		if _, ok := a.(strAt); ok && scalarItems(b.node) {
			return t.totalPredicate("in", a, b)
		}
		return t.partialPredicate("in", a, b)
	}
	c, err := t.newCompr(b.ref)
	if err != nil {
		return nil, err
	}
	defer t.dropScopes(c)
	return t.evalQuantified("exists", c, func(v value) (boolV, error) { return t.equalValues(v, singleBranch(a)) })
}

func scalarItems(list *schema.Node) bool {
	n := list.Items
	return n.Type == "string" && celTypeOfFormat(n) == "" && !n.Nullable || n.Type == "boolean"
}

// keyAt is the present key of a macro, in its scope, with its map.
type keyAt struct {
	of    ref
	scope scope
}

// keyOf returns the map if v is the present key of a macro over it.
func (t *translator) keyOf(v sval) (key keyAt, ok bool) {
	s, ok := v.(strAt)
	if !ok || len(s.at.path) > 0 || !s.isPlain() || !t.ranges[s.at.scope].key {
		return key, false
	}
	return keyAt{t.ranges[s.at.scope].of, s.at.scope}, true
}

// constList makes a list of constants of a list that comes from a default.
func (t *translator) constList(c constV) (listV, bool) {
	xs, ok := c.val.([]any)
	if !ok || c.node.Items == nil {
		return listV{}, false
	}
	l := listV{elems: make([]element, len(xs))}
	for i, x := range xs {
		v, ok, err := t.constantValue(x, c.node.Items)
		if err != nil {
			return listV{}, false
		}
		l.elems[i].in, l.elems[i].out = yes, no
		if ok {
			l.elems[i].v = singleBranch(v)
		}
	}
	return l, true
}
