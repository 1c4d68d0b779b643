package celrule

import (
	"strconv"

	"sluice.dev/schema/contain/internal/logic"
)

// size evaluates size(a).
func (t *translator) size(_ *expr, a sval) (value, error) {
	switch a := a.(type) {
	case strV:
		return just(intV(len([]rune(string(a))))), nil
	case strAt:
		return just(a.size()), nil
	case rawV:
		return just(intV(len(a))), nil
	case listV:
		return t.counts(a)
	case mapV:
		return just(intV(0)), nil
	case constV:
		switch x := a.val.(type) {
		case []any:
			return just(intV(len(x))), nil
		case map[string]any:
			if isMap(a.node) {
				return just(intV(len(x))), nil
			}
		}
	case refV:
		if n := sizeOf(a); n != nil {
			return just(newNum(n)), nil
		}
	case comprV:
		return t.comprSize(a.compr)
	case termV:
		if a.split != nil {
			return just(newNum(*a.split)), nil
		}
		if a.typ == "string" || a.typ == "list" || a.typ == "bytes" {
			return just(apply("size", "int", false, a)), nil
		}
	case numV:
		if a.dyn {
			return nil, nil
		}
	}
	return nil, errUnsupported
}

// size counts the code points.
func (v strAt) size() sval {
	extra := int64(len([]rune(v.before+v.after)) - v.lo)
	if v.hi >= 0 {
		return intV(int64(v.hi) + extra)
	}
	n := newNum(sizeAt{v.ref, logic.String})
	n.lo = int64(v.lo)
	if extra != 0 {
		n, _ = n.withConst('+', num{i: extra}, false)
	}
	return n
}

func (t *translator) toText(e *expr, a sval) (value, error) {
	switch v := a.(type) {
	case strV, strAt, prefixAt:
		return just(a), nil
	case intV:
		return just(strV(num{i: int64(v)}.text())), nil
	case boolV:
		return value{}.add(v.t, strV("true")).add(v.f, strV("false")), nil
	}
	return t.convert(e, a)
}

func (t *translator) toInt(e *expr, a sval) (value, error) {
	switch v := a.(type) {
	case intV:
		return just(a), nil
	case numV:
		if typeName(v) == "int" {
			return just(a), nil
		}
	case strV:
		if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return just(intV(i)), nil
		}
		return nil, nil
	case prefixAt:
		if v.has("+-0123456789") {
			return whereNumber(prefixInt{v}), nil
		}
	case strAt:
		if v.plain() {
			return whereNumber(intIn{v.ref}), nil
		}
	}
	return t.convert(e, a)
}

// whereNumber is the number that a string is read as, where it is read as one.
func whereNumber(b numBase) value {
	lo, hi := b.bounds()
	return value{}.add(b.within(lo, hi), newNum(b))
}

func (t *translator) toDouble(e *expr, a sval) (value, error) {
	switch v := a.(type) {
	case dblV:
		return just(a), nil
	case intV:
		return just(dblV(v)), nil
	case numV:
		if v.at(v.lo).dbl {
			return just(a), nil
		}
		if v.typ != "" {
			return nil, errUnsupported
		}
		return just(v.apply(numOp{toDouble, "double"}, false)), nil
	}
	return t.convert(e, a)
}

func (t *translator) toBool(e *expr, a sval) (value, error) {
	switch v := a.(type) {
	case boolV:
		return just(a), nil
	case strV:
		if b, err := strconv.ParseBool(string(v)); err == nil {
			return just(boolConst(b)), nil
		}
		return nil, nil
	case strAt:
		return just(boolV{
			t.oneOf(v, []string{"1", "t", "T", "true", "TRUE", "True"}).t,
			t.oneOf(v, []string{"0", "f", "F", "false", "FALSE", "False"}).t,
		}), nil
	}
	return t.convert(e, a)
}

// convert names the value of a conversion of which nothing more is known.
func (t *translator) convert(e *expr, a sval) (value, error) {
	x, ok := t.term(a)
	if !ok {
		return nil, errUnsupported
	}
	typ := e.name
	switch typ {
	case "duration":
		typ = durationType
	case "timestamp":
		typ = "google.protobuf.Timestamp"
	}
	if x.typ == typ {
		return just(a), nil
	}
	total := e.name == "string" && x.typ == "int" || e.name == "bytes" && x.typ == "string"
	return just(apply(e.name, typ, !total, x)), nil
}

// substring evaluates substring and charAt.
func (t *translator) substring(e *expr, a sval, lo, hi int64) (value, error) {
	if x, ok := a.(strV); ok {
		rs := []rune(string(x))
		n := int64(len(rs))
		switch {
		case lo < 0 || lo > n || hi > n || hi >= 0 && hi < lo:
			return nil, nil
		case e.name == "charAt":
			return just(strV(rs[lo:min(lo+1, n)])), nil
		case hi < 0:
			return just(strV(rs[lo:])), nil
		}
		return just(strV(rs[lo:hi])), nil
	}
	s, ok := a.(strAt)
	if !ok {
		return nil, errUnsupported
	}
	if e.name == "charAt" {
		v, ok := s.slice(lo, lo+1)
		if !ok || lo < 0 {
			return v, cannot(ok)
		}
		return v.add(leaf(s.at, logic.Length{Min: lo, Max: lo}), strV("")), nil
	}
	v, ok := s.slice(lo, hi)
	return v, cannot(ok)
}

func cannot(ok bool) error {
	if ok {
		return nil
	}
	return errUnsupported
}

// calculating translates an operator of arithmetic.
func calculating(op byte) func(*translator, *expr, sval, sval) (value, error) {
	return func(t *translator, e *expr, a, b sval) (value, error) { return t.arithmetic(op, e, a, b) }
}

func (t *translator) arithmetic(op byte, e *expr, a, b sval) (value, error) {
	x, xc := constNum(a)
	y, yc := constNum(b)
	n, xn := a.(numV)
	m, yn := b.(numV)
	switch {
	case xc && yc:
		if x.dbl != y.dbl {
			return nil, errUnsupported
		}
		if r, ok := arith(op, x, y); ok {
			if _, dur := a.(durV); dur {
				return just(durV(r.i)), nil
			}
			return just(numVal(r)), nil
		}
		return nil, nil
	case xn && yc:
		if r, ok := n.withConst(op, y, false); ok {
			return r.result(), nil
		}
	case xc && yn:
		if r, ok := m.withConst(op, x, true); ok {
			return r.result(), nil
		}
	case op == '+':
		if s, ok := concat(a, b); ok {
			return just(s), nil
		}
	}
	return t.function(e, a, b)
}

// concat joins strings of which one at most is not constant.
func concat(a, b sval) (sval, bool) {
	switch a := a.(type) {
	case strV:
		switch b := b.(type) {
		case strV:
			return a + b, true
		case strAt:
			b.before = string(a) + b.before
			return b, true
		}
	case strAt:
		if b, ok := b.(strV); ok {
			a.after += string(b)
			return a, true
		}
	}
	return nil, false
}
