package celrule

// What do functions about optional values, types and equality give? For example, self.?a.hasValue() says whether there is an a.

// hasValue translates o.hasValue(). Whether an optional has a value is decided by its branch, so the answer is a
// constant.
func (t *translator) hasValue(e *expr, a sval) (value, error) {
	if o, ok := a.(optV); ok {
		return singleBranch(boolConst(o.v != nil)), nil
	}
	return t.opaqueFunction(e, a)
}

// optValue translates o.value(), which is an error where there is no value: then no branch is left.
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

// typeOf translates type(a). It is known only for values that are no error, and whose type the schema decides.
func (t *translator) typeOf(e *expr, a sval) (value, error) {
	if name := a.typeName(); name != "" && !mayFail(a) {
		return singleBranch(typeV(name)), nil
	}
	return t.opaqueFunction(e, a)
}

// evalDyn translates dyn(a): the type checker forgets the type, the value stays the same.
func (*translator) evalDyn(_ *expr, a sval) (value, error) { return singleBranch(a), nil }

// evalEquals translates a == b.
func (t *translator) evalEquals(_ *expr, a, b sval) (value, error) {
	r, err := t.equalityOf(a, b)
	return singleBranch(r), err
}

// notEquals translates a != b by the two statements of a == b, exchanged. [translator.equalityOf] fails where == may
// be an error, for which != is true.
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
