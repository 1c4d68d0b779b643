package celrule

// When are two values equal? For example, self.k == 'a' is an enum of the property k, and self.a == self.b an opaque part of which some certain
// cases are known.

import (
	"reflect"
	"slices"

	"sluice.dev/schema/contain/internal/logic"
)

// equalityOf compares as == does. The result says when the operands are equal, and when == gives false. If == is an error, != is true
// upstream (evalNe in github.com/google/cel-go/interpreter): equality that can be an error is left to opaque statements, which take
// that into account.
func (t *translator) equalityOf(a, b sval) (boolV, error) {
	if isNull(a) || isNull(b) {
		return boolConst(isNull(a) && isNull(b)), unsupportedUnless(!mayFail(a) && !mayFail(b))
	}
	if r, ok := compareNumbers(eq, a, b); ok {
		return r, unsupportedUnless(r.t != nil)
	}
	if isConstant(b) && !isConstant(a) {
		a, b = b, a
	}
	switch a := a.(type) {
	case boolV, typeV:
		if r, ok := equalSimple(a, b); ok {
			return r, nil
		}
	case strV:
		if r, ok := t.amongStrings(b, []string{string(a)}); ok {
			return r, nil
		}
	case listV:
		if b, ok := b.(listV); ok {
			return t.equalLists(a, b)
		}
	}
	if r, ok := equalEmpty(a, b); ok {
		return r, nil
	}
	return t.equalTerms(a, b)
}

// isNull reports whether the value is certainly null.
func isNull(v sval) bool { _, ok := v.(nullV); return ok }

// equalSimple compares two booleans, or two types.
func equalSimple(a, b sval) (boolV, bool) {
	if p, ok := a.(boolV); ok {
		q, ok := b.(boolV)
		if !ok {
			return boolV{}, false
		}
		return boolV{orConds(andConds(p.t, q.t), andConds(p.f, q.f)), orConds(andConds(p.t, q.f), andConds(p.f, q.t))}, true
	}
	_, ok := b.(typeV)
	return boolConst(a == b), ok
}

// equalEmpty compares an empty list or map with one at a place.
func equalEmpty(a, b sval) (boolV, bool) {
	if emptyList(b) {
		a, b = b, a
	}
	n := sizeOf(b)
	if n == nil || !emptyList(a) {
		return boolV{}, false
	}
	return boolV{n.indexWithin(0, 0), n.indexWithin(1, maxSize)}, true
}

// amongStrings says that a string is one of some.
func (t *translator) amongStrings(v sval, consts []string) (boolV, bool) {
	switch v := v.(type) {
	case strV:
		return boolConst(slices.Contains(consts, string(v))), true
	case strAt:
		return t.oneOf(v, consts), true
	case schemeAt:
		return schemeOf(v.of, consts), true
	case prefixAt:
		return v.oneOf(consts), true
	}
	return boolV{}, false
}

// emptyList reports whether the value is [] or {} as written in the rule.
func emptyList(v sval) bool {
	switch v := v.(type) {
	case listV:
		return len(v.elems) == 0
	case mapV:
		return true
	}
	return false
}

// sizeOf returns the size of a list or map at a place.
func sizeOf(v sval) numBase {
	r, ok := v.(refV)
	switch {
	case !ok:
		return nil
	case r.node.Type == "array":
		return sizeAt{r.ref, logic.Array}
	case isMap(r.node):
		return sizeAt{r.ref, logic.Object}
	}
	return nil
}

// equalTerms compares values that can only be named. The same name means the same value, and different names mean an opaque statement, about
// which some cases are certain. It fails where == may be an error.
func (t *translator) equalTerms(a, b sval) (boolV, error) {
	ta, tb := a.typeName(), b.typeName()
	if otherType(a, b) && (!isNumericType(ta) || !isNumericType(tb)) {
		return boolConst(false), nil
	}
	x, y, _, ok := t.termsInOrder(a, b)
	if !ok || (!isScalar(ta) || !isScalar(tb)) && !rawEqualBoth(a, b) {
		return boolV{}, errUnsupported
	}
	valid := whereValid(a, b)
	if reflect.DeepEqual(x, y) && !x.partial {
		return boolV{valid, no}, nil
	}
	if r, ok := t.equalByEnum(a, b); ok {
		return r, nil
	}
	r := t.equalOpaque(a, b, t.namedEquality(x, y))
	return boolV{andConds(valid, r.t), andConds(valid, r.f)}, nil
}

// namedEquality is the opaque statement that two values are equal. If it relates a place of one item to that of another, it notes which, so
// that [translator.countSame] recognises items that differ.
func (t *translator) namedEquality(x, y termV) boolV {
	r := t.predicateOf(functionTerm("==", "bool", false, x, y))
	if p, ok := x.onlyPlace(); ok && r.t.op == opRel {
		if q, ok := y.onlyPlace(); ok && p.node == q.node && rawEqual(p.node) {
			r.t.equal = &[2]ref{p, q}
		}
	}
	return r
}

// onlyPlace returns the place if the term is the value at a place, and no function of it.
func (x termV) onlyPlace() (ref, bool) {
	if x.text != mark || len(x.refs) != 1 {
		return ref{}, false
	}
	return x.refs[0], true
}

// rawEqualBoth tells whether == never fails for two lists or maps. Where it may, != is true: no exact pair of statements for both.
func rawEqualBoth(a, b sval) bool {
	p, ok := a.(refV)
	q, ok2 := b.(refV)
	return ok && ok2 && p.node == q.node && rawEqual(p.node)
}

// maxEnum bounds the values that are tried one by one.
const maxEnum = 12

// equalByEnum compares two strings, one of which has an enum.
func (t *translator) equalByEnum(a, b sval) (boolV, bool) {
	x, ok := a.(strAt)
	y, ok2 := b.(strAt)
	if !ok || !ok2 || !x.isPlain() || x.dyn || y.dyn {
		return boolV{}, false
	}
	if n := len(x.node.Enum); n == 0 || n > maxEnum {
		x, y = y, x
	}
	if n := len(x.node.Enum); n == 0 || n > maxEnum || !x.isPlain() {
		return boolV{}, false
	}
	var ts, fs []*cond
	for _, v := range x.node.Enum {
		s, ok := v.(string)
		if !ok {
			return boolV{}, false
		}
		p, q := t.oneOf(x, []string{s}), t.oneOf(y, []string{s})
		ts, fs = append(ts, andConds(p.t, q.t)), append(fs, andConds(p.t, q.f))
	}
	return boolV{orConds(ts...), orConds(fs...)}, true
}

// isScalar reports whether values of the CEL type have no parts. Equality of two scalars is never an error.
func isScalar(typ string) bool {
	switch typ {
	case "int", "uint", "double", "string", "bool", "bytes", "type", "null_type",
		durationType, "google.protobuf.Timestamp":
		return true
	}
	return false
}

// equalLists compares lists written in the rule.
func (t *translator) equalLists(a, b listV) (boolV, error) {
	if !a.hasFixedElements() || !b.hasFixedElements() {
		return boolV{}, errUnsupported
	}
	if len(a.elems) != len(b.elems) {
		return boolConst(false), nil
	}
	ts, fs := []*cond{}, []*cond{}
	for i := range a.elems {
		r, err := t.equalValues(a.elems[i].v, b.elems[i].v)
		if err != nil {
			return boolV{}, err
		}
		ts, fs = append(ts, r.t), append(fs, r.f)
	}
	return boolV{andConds(ts...), orConds(fs...)}, nil
}

// equalValues compares values with branches.
func (t *translator) equalValues(a, b value) (boolV, error) {
	v, err := t.eachPair(a, b, func(x, y sval) (value, error) {
		r, err := t.equalityOf(x, y)
		return singleBranch(r), err
	})
	if err != nil {
		return boolV{}, err
	}
	return t.asBool(v, nil)
}
