package celrule

// When are two values equal, is one in a list, and what is at an index? For example, self.k in ['a', 'b'] is an enum of the property k.

import (
	"reflect"
	"unicode/utf8"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// equalityOf compares as == does. The result says when the operands are equal, and when == gives false. If == is an error, != is true
// upstream (evalNe in github.com/google/cel-go/interpreter): equality that can be an error is left to opaque statements, which take
// that into account.
func (t *translator) equalityOf(a, b sval) (boolV, error) {
	_, an := a.(nullV)
	_, bn := b.(nullV)
	if an || bn {
		return boolConst(an && bn), unsupportedUnless(!mayFail(a) && !mayFail(b))
	}
	if r, ok := compareNumbers(eq, a, b); ok {
		return r, nil
	}
	if isConstant(b) && !isConstant(a) {
		a, b = b, a
	}
	switch a := a.(type) {
	case boolV:
		if b, ok := b.(boolV); ok {
			return boolV{orConds(andConds(a.t, b.t), andConds(a.f, b.f)), orConds(andConds(a.t, b.f), andConds(a.f, b.t))}, nil
		}
	case typeV:
		if b, ok := b.(typeV); ok {
			return boolConst(a == b), nil
		}
	case strV:
		if b, ok := b.(strV); ok {
			return boolConst(a == b), nil
		}
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

// amongStrings says that a string that is not constant is one of some.
func (t *translator) amongStrings(v sval, consts []string) (boolV, bool) {
	switch v := v.(type) {
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

// equalTerms compares values that can only be named.
func (t *translator) equalTerms(a, b sval) (boolV, error) {
	ta, tb := typeName(a), typeName(b)
	if otherType(a, b) && (!isNumericType(ta) || !isNumericType(tb)) {
		return boolConst(false), nil
	}
	x, ok := t.termOf(a)
	y, ok2 := t.termOf(b)
	if !ok || !ok2 {
		return boolV{}, errUnsupported
	}
	valid := whereValid(a, b)
	if (!isScalar(ta) || !isScalar(tb)) && !rawEqualBoth(a, b) {
		return boolV{}, errUnsupported
	}
	if y.sortText() < x.sortText() {
		x, y = y, x
	}
	if reflect.DeepEqual(x, y) && !x.partial {
		return boolV{valid, no}, nil
	}
	if r, ok := t.equalByEnum(a, b); ok {
		return r, nil
	}
	r := t.predicateOf(functionTerm("==", "bool", false, x, y))
	if r.t.op == opRel && len(x.refs) == 1 && len(y.refs) == 1 && x.text == mark && y.text == mark &&
		x.refs[0].node == y.refs[0].node && rawEqual(x.refs[0].node) {
		r.t.equal = &[2]ref{x.refs[0], y.refs[0]}
	}
	r = t.equalOpaque(a, b, r)
	return boolV{andConds(valid, r.t), andConds(valid, r.f)}, nil
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
			c, err := t.propertyOf(b, string(s))
			return singleBranch(boolV{c.whenPresent(), c.absent}), err
		}
	case refV:
		if isMap(b.node) {
			s, ok := a.(strV)
			if !ok {
				if k, ok := t.keyOf(a); ok && k.of.at.equalPlace(b.at) && b.node.Additional.Type != "integer" && !b.node.Additional.IntOrString {
					return singleBranch(boolConst(true)), nil
				}
				return t.partialPredicate("in", a, b)
			}
			c, err := t.propertyOf(b, string(s))
			return singleBranch(boolV{c.whenPresent(), c.absent}), err
		}
		if b.node.Type == "array" {
			return t.inArray(a, b)
		}
	case comprV:
		return t.evalQuantified("exists", b.compr, func(v value) (boolV, error) { return t.equalValues(v, singleBranch(a)) })
	}
	return nil, errUnsupported
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
		if len(e.v) != 1 || e.v[0].g.op != opTrue || e.in.op != opTrue {
			return nil, false
		}
		s, ok := e.v[0].v.(strV)
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
		if optional {
			return singleBranch(optV{}), nil
		}
		return nil, nil
	case refV:
		if !isMap(x.node) {
			return t.indexArray(x, b, optional)
		}
		return t.indexMap(x, b, optional)
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
		if i, ok := b.(intV); ok && i == 0 && x.split != nil && !optional {
			r, _ := utf8.DecodeRuneInString(x.split.sep)
			return singleBranch(prefixAt{x.split.ref, allBut(r)}), nil
		}
	}
	return nil, errUnsupported
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
	size := sizeAt{l.ref, logic.Array}
	beyond, rest := yes, no // when the index is out of range, when it is that of an unknown item
	first := false          // when it is that of the only item
	switch i := b.(type) {
	case intV:
		if i >= 0 {
			beyond, rest = size.indexWithin(0, int64(i)), size.indexWithin(int64(i)+1, maxSize)
		}
		if i == 0 {
			first, rest = true, size.indexWithin(2, maxSize)
		}
	case numV: // such as size(list) - 1
		s, ok := i.base.(sizeAt)
		if !ok || !s.at.equalPlace(l.at) || i.numberAt(1).dbl {
			return nil, errUnsupported
		}
		first = i.numberAt(1).i == 0
		rest, beyond = size.indexWithin(2, maxSize), size.indexWithin(0, 1)
		if first {
			beyond = size.indexWithin(0, 0)
		}
	default:
		return nil, errUnsupported
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

func (t *translator) indexList(l listV, b sval, optional bool) (value, error) {
	i, ok := b.(intV)
	if !ok || !l.hasFixedElements() {
		return nil, errUnsupported
	}
	if i < 0 || int(i) >= len(l.elems) {
		if optional {
			return singleBranch(optV{}), nil
		}
		return nil, nil
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
