package celrule

// When are two values equal, is one in a list, and what is at an index? For example, self.k in ['a', 'b'] is an enum of the property k.

import (
	"reflect"
	"slices"
	"unicode/utf8"

	"sluice.dev/schema"
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

func isConstant(v sval) bool {
	switch v.(type) {
	case intV, dblV, strV, typeV, nullV, durV:
		return true
	}
	return false
}

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
	ta, tb := typeName(a), typeName(b)
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

// termsInOrder names two values. The order of the names does not depend on that of the values: swapped says that it is the other one.
func (t *translator) termsInOrder(a, b sval) (x, y termV, swapped, ok bool) {
	x, ok = t.termOf(a)
	y, ok2 := t.termOf(b)
	if y.sortText() < x.sortText() {
		return y, x, true, ok && ok2
	}
	return x, y, false, ok && ok2
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

func isNumericType(typ string) bool { return typ == "int" || typ == "double" || typ == "uint" }

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

// hasFixedElements reports whether all elements of the list are always in it.
func (l listV) hasFixedElements() bool {
	for _, e := range l.elems {
		if e.in.op != opTrue {
			return false
		}
	}
	return true
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
	if k, ok := t.keyOf(a); ok && k.of.at.equalPlace(b.at) && b.node.Additional.Type != "integer" && !b.node.Additional.IntOrString {
		return singleBranch(boolConst(true)), nil
	}
	return t.partialPredicate("in", a, b)
}

func (t *translator) hasKey(m sval, key strV) (value, error) {
	c, err := t.propertyOf(m, string(key))
	return singleBranch(boolV{c.whenPresent(), c.absent}), err
}

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

// indexingBy translates a[b] and a[?b].
func indexingBy(optional bool) func(*translator, *expr, sval, sval) (value, error) {
	return func(t *translator, _ *expr, a, b sval) (value, error) { return t.evalIndex(a, b, optional) }
}

// evalIndex evaluates a[b] and a[?b].
func (t *translator) evalIndex(a, b sval, optional bool) (value, error) {
	switch x := a.(type) {
	case optV:
		if x.v == nil {
			return singleBranch(x), nil
		}
		return t.evalIndex(x.v, b, true)
	case mapV:
		return noElement(optional)
	case refV:
		if isMap(x.node) {
			return t.indexMap(x, b, optional)
		}
		return t.indexArray(x, b, optional)
	case constV:
		if s, ok := b.(strV); ok && isMap(x.node) {
			return t.selectField(a, string(s), optional)
		}
		if l, ok := t.constList(x); ok {
			return t.indexList(l, b, optional)
		}
	case listV:
		return t.indexList(x, b, optional)
	case termV:
		if x.split != nil && b == intV(0) && !optional { // what stands before the first separator
			r, _ := utf8.DecodeRuneInString(x.split.sep)
			return singleBranch(prefixAt{x.split.ref, allBut(r)}), nil
		}
	}
	return nil, errUnsupported
}

// noElement is the value at an index that is out of range: an error, or none.
func noElement(optional bool) (value, error) {
	if optional {
		return singleBranch(optV{}), nil
	}
	return nil, nil
}

// indexMap evaluates an index into a map at a place.
func (t *translator) indexMap(m refV, b sval, optional bool) (value, error) {
	if s, ok := b.(strV); ok {
		return t.selectField(m, string(s), optional)
	}
	if k, ok := t.keyOf(b); ok && k.of.at.equalPlace(m.at) && !optional {
		return t.loadPlace(place{scope: k.scope + 1}, m.node.Additional)
	}
	return nil, errUnsupported
}

// indexArray evaluates an index into a list at a place. The result is known only if the list has one item or none.
func (t *translator) indexArray(l refV, b sval, optional bool) (value, error) {
	if l.node.Type != "array" || l.node.Items == nil {
		return nil, errUnsupported
	}
	first, beyond, rest, err := indexCases(sizeAt{l.ref, logic.Array}, b)
	if err != nil {
		return nil, err
	}
	var out value
	if first {
		v, err := t.loadPlace(l.at.withStep(step{only: true}), l.node.Items)
		if err != nil {
			return nil, err
		}
		for _, b := range v {
			if optional {
				b.v = optV{b.v}
			}
			out = out.addBranch(b.g, b.v)
		}
	}
	if optional {
		out = out.addBranch(beyond, optV{})
	}
	return out.addBranch(rest, lostV{}), nil
}

// indexCases says of an index into a list of some size whether it is that of the only item of a list with one, when it is out of range, and
// when it is that of an item of which nothing is known.
func indexCases(size sizeAt, index sval) (first bool, beyond, rest *cond, err error) {
	several := size.indexWithin(2, maxSize)
	switch i := index.(type) {
	case intV:
		switch {
		case i < 0:
			return false, yes, no, nil
		case i == 0:
			return true, size.indexWithin(0, 0), several, nil
		}
		return false, size.indexWithin(0, int64(i)), size.indexWithin(int64(i)+1, maxSize), nil
	case numV: // such as size(list) - 1
		if s, ok := i.base.(sizeAt); ok && s.at.equalPlace(size.at) && !i.numberAt(1).dbl {
			if i.numberAt(1).i == 0 {
				return true, size.indexWithin(0, 0), several, nil
			}
			return false, size.indexWithin(0, 1), several, nil
		}
	}
	return false, nil, nil, errUnsupported
}

func (t *translator) indexList(l listV, b sval, optional bool) (value, error) {
	i, ok := b.(intV)
	if !ok || !l.hasFixedElements() {
		return nil, errUnsupported
	}
	if i < 0 || int(i) >= len(l.elems) {
		return noElement(optional)
	}
	v := l.elems[i].v
	if !optional {
		return v, nil
	}
	return t.eachBranch(v, optionalWith)
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
