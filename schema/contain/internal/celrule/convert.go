package celrule

import (
	"strconv"

	"github.com/google/cel-go/common/operators"

	"sluice.dev/schema/contain/internal/logic"
)

// size evaluates size(a).
func (t *translator) size(a sval) (value, error) {
	switch a := a.(type) {
	case strV:
		return just(intV(len([]rune(string(a))))), nil
	case strAt:
		extra := int64(len([]rune(a.before+a.after)) - a.lo)
		if a.hi >= 0 {
			return just(intV(int64(a.hi) + extra)), nil
		}
		n := newNum(sizeAt{a.ref, logic.String})
		n.lo = int64(a.lo)
		if extra != 0 {
			n, _ = n.withConst('+', num{i: extra}, false)
		}
		return just(n), nil
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
		switch {
		case a.node.Type == "array":
			return just(newNum(sizeAt{a.ref, logic.Array})), nil
		case isMap(a.node):
			return just(newNum(sizeAt{a.ref, logic.Object})), nil
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

// convert evaluates conversions.
func (t *translator) convert(name string, a sval) (value, error) {
	switch name {
	case "string":
		switch v := a.(type) {
		case strV, strAt, prefixAt:
			return just(a), nil
		case intV:
			return just(strV(num{i: int64(v)}.text())), nil
		case boolV:
			return value{}.add(v.t, strV("true")).add(v.f, strV("false")), nil
		}
	case "int":
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
				b := prefixInt{v}
				lo, hi := b.bounds()
				return value{}.add(b.within(lo, hi), newNum(b)), nil
			}
		case strAt:
			if v.plain() {
				b := intIn{v.ref}
				lo, hi := b.bounds()
				return value{}.add(b.within(lo, hi), newNum(b)), nil
			}
		}
	case "double":
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
	case "bool":
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
	}
	if name == "duration" {
		if v, ok := t.toDuration(a); ok {
			return v, nil
		}
	}
	x, ok := t.term(a)
	if !ok {
		return nil, errUnsupported
	}
	typ := map[string]string{"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}[name]
	if typ == "" {
		typ = name
	}
	if x.typ == typ {
		return just(a), nil
	}
	total := name == "string" && x.typ == "int" || name == "bytes" && x.typ == "string"
	return just(apply(name, typ, !total, x)), nil
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

var arithOps = map[string]byte{
	operators.Add: '+', operators.Subtract: '-', operators.Multiply: '*', operators.Divide: '/', operators.Modulo: '%',
}

func (t *translator) arithmetic(e *expr, a, b sval) (value, error) {
	op := arithOps[e.name]
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
