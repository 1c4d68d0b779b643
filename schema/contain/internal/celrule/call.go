package celrule

// What do functions about optional values, types and equality give? For example, self.?a.hasValue() says whether there is an a.

func (t *translator) hasValue(e *expr, a sval) (value, error) {
	if o, ok := a.(optV); ok {
		return singleBranch(boolConst(o.v != nil)), nil
	}
	return t.opaqueFunction(e, a)
}

func (t *translator) optValue(e *expr, a sval) (value, error) {
	o, ok := a.(optV)
	switch {
	case !ok:
		return t.opaqueFunction(e, a)
	case o.v == nil:
		return nil, nil
	}
	return singleBranch(o.v), nil
}

func (t *translator) typeOf(e *expr, a sval) (value, error) {
	if name := a.typeName(); name != "" && !mayFail(a) {
		return singleBranch(typeV(name)), nil
	}
	return t.opaqueFunction(e, a)
}

func (*translator) evalDyn(_ *expr, a sval) (value, error) { return singleBranch(a), nil }

func (t *translator) evalEquals(_ *expr, a, b sval) (value, error) {
	r, err := t.equalityOf(a, b)
	return singleBranch(r), err
}

func (t *translator) notEquals(_ *expr, a, b sval) (value, error) {
	r, err := t.equalityOf(a, b)
	return singleBranch(boolV{r.f, r.t}), err
}

// optSelect translates a.?b.
func (t *translator) optSelect(e *expr, a, b sval) (value, error) {
	if name, ok := b.(strV); ok {
		return t.selectField(a, string(name), true)
	}
	return t.opaqueFunction(e, a, b)
}
