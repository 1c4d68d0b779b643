package celrule

import (
	"reflect"
	"strings"

	"sluice.dev/schema"

	"sluice.dev/schema/contain/internal/logic"
)

// equal compares as == does; the result says where the operands are equal, and where == gives false. Where == is an
// error, != is true upstream (evalNe in github.com/google/cel-go/interpreter): equality that can be an error is left to
// opaque statements, which take that into account.
func (t *translator) equal(a, b sval) (boolV, error) {
	_, an := a.(nullV)
	_, bn := b.(nullV)
	if an || bn {
		return boolConst(an && bn), nil
	}
	if isConstant(b) && !isConstant(a) {
		a, b = b, a
	}
	if x, ok := constNum(a); ok {
		if y, ok := constNum(b); ok {
			return boolConst(x.compare(y) == 0), nil
		}
		if n, ok := b.(numV); ok {
			tr, fa := n.compareConst(eq, x)
			return boolV{tr, fa}, nil
		}
	}
	switch a := a.(type) {
	case boolV:
		if b, ok := b.(boolV); ok {
			return boolV{or(and(a.t, b.t), and(a.f, b.f)), or(and(a.t, b.f), and(a.f, b.t))}, nil
		}
	case typeV:
		if b, ok := b.(typeV); ok {
			return boolConst(a == b), nil
		}
	case strV:
		switch b := b.(type) {
		case strV:
			return boolConst(a == b), nil
		case strAt:
			return t.oneOf(b, []string{string(a)}), nil
		}
	case uintV:
		if b, ok := b.(uintV); ok {
			return boolConst(a == b), nil
		}
	case listV:
		if b, ok := b.(listV); ok {
			return t.equalLists(a, b)
		}
	}
	if l, n := emptyList(a), sizeOf(b); l && n != nil {
		return boolV{n.within(0, 0), n.within(1, logic.Unbounded)}, nil
	}
	if l, n := emptyList(b), sizeOf(a); l && n != nil {
		return boolV{n.within(0, 0), n.within(1, logic.Unbounded)}, nil
	}
	return t.equalTerms(a, b)
}

func isConstant(v sval) bool {
	switch v.(type) {
	case intV, dblV, uintV, strV, rawV, typeV, nullV:
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
	if (isDyn(a) || isDyn(b)) && ta != "" && tb != "" && ta != tb && !(numeric(ta) && numeric(tb)) {
		return boolConst(false), nil
	}
	x, ok := t.term(a)
	y, ok2 := t.term(b)
	if !ok || !ok2 {
		return boolV{}, errUnsupported
	}
	valid := yes
	for _, v := range []sval{a, b} {
		if n, ok := v.(numV); ok {
			valid = and(valid, n.valid())
		}
	}
	scalar := isScalar(ta) && isScalar(tb)
	if scalar && y.order() < x.order() {
		x, y = y, x
	}
	if reflect.DeepEqual(x, y) && scalar && !x.partial {
		return boolV{valid, no}, nil
	}
	r := t.predicate(apply("==", "bool", !scalar, x, y))
	if !scalar {
		// Equality of lists and maps may be an error, and then != is true: no exact pair of statements for both.
		return boolV{}, errUnsupported
	}
	return boolV{and(valid, r.t), and(valid, r.f)}, nil
}

func numeric(typ string) bool { return typ == "int" || typ == "double" || typ == "uint" }

func isScalar(typ string) bool {
	switch typ {
	case "int", "uint", "double", "string", "bool", "bytes", "type", "null_type",
		"google.protobuf.Duration", "google.protobuf.Timestamp":
		return true
	}
	return false
}

// oneOf says that a string is one of several, or none.
func (t *translator) oneOf(s strAt, consts []string) boolV {
	var vs []any
	for _, c := range consts {
		if len(c) >= len(s.before)+len(s.after) && strings.HasPrefix(c, s.before) && strings.HasSuffix(c, s.after) {
			vs = append(vs, c[len(s.before):len(c)-len(s.after)])
		}
	}
	if len(vs) == 0 {
		return boolV{no, yes}
	}
	return boolV{leaf(s.at, logic.Enum{Values: vs}), leaf(s.at, logic.Enum{Values: vs, Neg: true})}
}

// equalLists compares lists written in the rule.
func (t *translator) equalLists(a, b listV) (boolV, error) {
	if !a.fixed() || !b.fixed() {
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
	return boolV{and(ts...), or(fs...)}, nil
}

// equalValues compares values with branches.
func (t *translator) equalValues(a, b value) (boolV, error) {
	v, err := t.pairs(a, b, func(x, y sval) (value, error) {
		r, err := t.equal(x, y)
		return just(r), err
	})
	if err != nil {
		return boolV{}, err
	}
	return t.asBool(v)
}

// fixed tells whether all elements of the list are always in it.
func (l listV) fixed() bool {
	for _, e := range l.elems {
		if e.in.op != opTrue {
			return false
		}
	}
	return true
}

// in evaluates a in b.
func (t *translator) in(a, b sval) (value, error) {
	switch b := b.(type) {
	case mapV:
		return just(boolConst(false)), nil
	case listV:
		return t.inList(a, b)
	case constV:
		if l, ok := t.constList(b); ok {
			return t.inList(a, l)
		}
		if s, ok := a.(strV); ok && isMap(b.node) {
			c, err := t.property(b, string(s))
			return just(boolV{c.there(), c.absent}), err
		}
	case refV:
		if isMap(b.node) {
			s, ok := a.(strV)
			if !ok {
				if k, ok := t.keyOf(a); ok && k.at.equal(b.at) {
					return just(boolConst(true)), nil
				}
				return t.partial("in", a, b)
			}
			c, err := t.property(b, string(s))
			return just(boolV{c.there(), c.absent}), err
		}
		if b.node.Type == "array" {
			return t.inArray(a, b)
		}
	case comprV:
		return t.quantified("exists", b.compr, func(v value) (boolV, error) { return t.equalValues(v, just(a)) })
	}
	return nil, errUnsupported
}

func (t *translator) inList(a sval, b listV) (value, error) {
	if s, ok := a.(strAt); ok {
		if consts, ok := b.strings(); ok {
			return just(t.oneOf(s, consts)), nil
		}
	}
	ts, fs := []*cond{}, []*cond{}
	for _, e := range b.elems {
		r, err := t.equalValues(just(a), e.v)
		if err != nil {
			return nil, err
		}
		ts = append(ts, and(e.in, r.t))
		fs = append(fs, or(not(e.in), r.f))
	}
	return just(boolV{or(ts...), and(fs...)}), nil
}

// strings returns the elements of a list of string constants.
func (l listV) strings() ([]string, bool) {
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
		if x, ok := a.(strAt); ok && scalarItems(b.node) && x.before+x.after == "" {
			return t.total("in", a, b)
		}
		return t.partial("in", a, b)
	}
	c, err := t.newCompr(b.ref)
	if err != nil {
		return nil, err
	}
	defer t.drop(c)
	return t.quantified("exists", c, func(v value) (boolV, error) { return t.equalValues(v, just(a)) })
}

func scalarItems(list *schema.Node) bool {
	n := list.Items
	return n.Type == "string" && typed(n) == "" && !n.Nullable || n.Type == "boolean"
}

// index evaluates a[b] and a[?b].
func (t *translator) index(a, b sval, optional bool) (value, error) {
	switch x := a.(type) {
	case optV:
		if x.v == nil {
			return just(x), nil
		}
		return t.index(x.v, b, true)
	case mapV:
		if optional {
			return just(optV{}), nil
		}
		return nil, nil
	case refV:
		if !isMap(x.node) {
			break
		}
		if s, ok := b.(strV); ok {
			return t.selectField(a, string(s), optional)
		}
		if k, ok := t.keyOf(b); ok && k.at.equal(x.at) && !optional {
			s := b.(strAt)
			return t.load(place{scope: s.at.scope + 1}, x.node.Additional)
		}
	case constV:
		if s, ok := b.(strV); ok && isMap(x.node) {
			return t.selectField(a, string(s), optional)
		}
		if l, ok := t.constList(x); ok {
			return t.indexList(l, b, optional)
		}
	case listV:
		return t.indexList(x, b, optional)
	}
	return nil, errUnsupported
}

func (t *translator) indexList(l listV, b sval, optional bool) (value, error) {
	i, ok := b.(intV)
	if !ok || !l.fixed() {
		return nil, errUnsupported
	}
	if i < 0 || int(i) >= len(l.elems) {
		if optional {
			return just(optV{}), nil
		}
		return nil, nil
	}
	v := l.elems[i].v
	if !optional {
		return v, nil
	}
	return t.each(v, func(s sval) (value, error) { return just(optV{s}), nil })
}

// keyOf returns the map of whose keys v is the one that a macro is at.
func (t *translator) keyOf(v sval) (ref, bool) {
	s, ok := v.(strAt)
	if !ok || len(s.at.path) > 0 || s.before+s.after != "" || !t.ranges[s.at.scope].key {
		return ref{}, false
	}
	return t.ranges[s.at.scope].of, true
}

// constList makes a list of constants of a list that comes from a default.
func (t *translator) constList(c constV) (listV, bool) {
	xs, ok := c.val.([]any)
	if !ok || c.node.Items == nil {
		return listV{}, false
	}
	l := listV{elems: make([]element, len(xs))}
	for i, x := range xs {
		v, ok, err := t.constant(x, c.node.Items)
		if err != nil {
			return listV{}, false
		}
		l.elems[i].in = yes
		if ok {
			l.elems[i].v = just(v)
		}
	}
	return l, true
}
