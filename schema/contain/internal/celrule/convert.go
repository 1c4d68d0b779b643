package celrule

// What do size, conversions, substring, + and - give? For example, int(self.s) is a number where the text of s is one, and an error
// elsewhere.
//
// A function here keeps as much as a formula can say: a number that steps compute from one at a place, or a part of a
// string. Where that ends, the result only gets a name.

import (
	"slices"
	"strconv"
	"time"

	"sluice.dev/schema/contain/internal/logic"
)

// evalSize evaluates size(a).
func (t *translator) evalSize(_ *expr, a sval) (value, error) {
	switch a := a.(type) {
	case strV:
		return singleBranch(intV(len([]rune(string(a))))), nil
	case strAt:
		// How many code points trim cuts is not known; the other changes keep the number.
		if a.fold.kind == trimmed {
			x, _ := t.termOf(a)
			return singleBranch(functionTerm("size", "int", false, x)), nil
		}
		return singleBranch(a.codePointCount()), nil
	case listV:
		return t.countElements(a)
	case mapV:
		return singleBranch(intV(0)), nil
	case constV:
		n, ok := a.entryCount()
		return singleBranch(intV(n)), unsupportedUnless(ok)
	case refV:
		if n := sizeOf(a); n != nil {
			return singleBranch(newNum(n)), nil
		}
	case comprV:
		return t.comprSize(a.compr)
	case termV:
		switch {
		case a.split != nil:
			return singleBranch(newNum(*a.split)), nil
		case slices.Contains([]string{"string", "list", "bytes"}, a.typ):
			return singleBranch(functionTerm("size", "int", false, a)), nil
		}
	case numV:
		// An integer in place of a string: a dynamic call of size() is an error.
		if a.dyn {
			return nil, nil
		}
	}
	return nil, errUnsupported
}

// entryCount counts the items of a list, or the keys of a map. An object has no size in CEL.
func (v constV) entryCount() (int, bool) {
	switch x := v.val.(type) {
	case []any:
		return len(x), true
	case map[string]any:
		return len(x), isMap(v.node)
	}
	return 0, false
}

// codePointCount counts the code points.
func (v strAt) codePointCount() sval {
	extra := int64(len([]rune(v.before+v.after)) - v.lo)
	if v.hi >= 0 {
		return intV(int64(v.hi) + extra)
	}
	n := newNum(sizeAt{v.ref, logic.String})
	n.lo = int64(v.lo)
	if extra != 0 {
		n, _ = n.withConst('+', extra, false)
	}
	return n
}

// toText translates string(a). The text of a number at a place is not known, and only gets a name.
func (t *translator) toText(e *expr, a sval) (value, error) {
	switch v := a.(type) {
	case strV, strAt, prefixAt:
		return singleBranch(a), nil
	case intV:
		return singleBranch(strV(strconv.FormatInt(int64(v), 10))), nil
	case boolV:
		return value{}.addBranch(v.t, strV("true")).addBranch(v.f, strV("false")), nil
	}
	return t.opaqueConversion(e, a)
}

// toInt translates int(a). Of a text, it is a number where the text is written like one, and an error elsewhere.
func (t *translator) toInt(e *expr, a sval) (value, error) {
	switch v := a.(type) {
	case intV:
		return singleBranch(a), nil
	case numV:
		if v.typeName() == "int" {
			return singleBranch(a), nil
		}
	case strV:
		if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return singleBranch(intV(i)), nil
		}
		return nil, nil
	case prefixAt:
		if v.classHasAll("+-0123456789") {
			return whereNumber(prefixInt{v}), nil
		}
	case strAt:
		if v.isPlain() {
			return whereNumber(intIn{v.ref}), nil
		}
	}
	return t.opaqueConversion(e, a)
}

// whereNumber is the number that a string is read as, where it is read as one.
func whereNumber(b numBase) value {
	lo, hi := b.indexBounds()
	return value{}.addBranch(b.indexWithin(lo, hi), newNum(b))
}

// toDouble translates double(a). Of an integer at a place it is a step that never fails and keeps the order, so that
// comparisons with a constant stay ranges. A duration has no such conversion.
func (t *translator) toDouble(e *expr, a sval) (value, error) {
	switch v := a.(type) {
	case dblV:
		return singleBranch(a), nil
	case intV:
		return singleBranch(dblV(v)), nil
	case numV:
		if v.numberAt(v.lo).dbl {
			return singleBranch(a), nil
		}
		if v.typ != "" {
			return nil, errUnsupported
		}
		return singleBranch(v.applyStep(numOp{toDouble, "double"}, false)), nil
	}
	return t.opaqueConversion(e, a)
}

// opaqueConversion names the value of a conversion of which nothing more is known.
func (t *translator) opaqueConversion(e *expr, a sval) (value, error) {
	x, ok := t.termOf(a)
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
		return singleBranch(a), nil
	}
	total := e.name == "string" && x.typ == "int" || e.name == "bytes" && x.typ == "string"
	return singleBranch(functionTerm(e.name, typ, !total, x)), nil
}

// arithmeticBy translates +, -, * and /. Steps of type double only get a name.
func arithmeticBy(op byte) func(*translator, *expr, sval, sval) (value, error) {
	return func(t *translator, e *expr, a, b sval) (value, error) { return t.evalArithmetic(op, e, a, b) }
}

// extremeOf returns the least or the greatest item of a list.
func extremeOf(greatest bool) func(*translator, *expr, sval) (value, error) {
	return func(t *translator, e *expr, a sval) (value, error) {
		l, ok := a.(refV)
		if !ok || l.node.Type != "array" || l.node.Items == nil || l.node.Items.Type != "integer" {
			return t.opaqueFunction(e, a)
		}
		b := extremeAt{l.ref, greatest}
		return value{}.addBranch(b.indexWithin(b.indexBounds()), newNum(b)), nil
	}
}

// negateInt computes -a of an int.
func (t *translator) negateInt(e *expr, a sval) (value, error) {
	return t.evalArithmetic('-', e, intV(0), a)
}

// evalArithmetic computes with constants, adds a step to a number, or joins strings. A step that overflows is an error of the rule, so that
// the number has no value there.
func (t *translator) evalArithmetic(op byte, e *expr, a, b sval) (value, error) {
	x, xc := constNum(a)
	y, yc := constNum(b)
	n, xn := a.(numV)
	m, yn := b.(numV)
	switch {
	// Sums of doubles round, so their order does not follow from that of the operands: they only get a name.
	case x.dbl || y.dbl:
	case xc && yc:
		r, ok := computeInt(op, x.i, y.i)
		switch _, dur := a.(durV); {
		case !ok:
			return nil, nil
		case dur:
			return singleBranch(durV(r)), nil
		}
		return singleBranch(intV(r)), nil
	case xn && yc:
		if r, ok := n.withConst(op, y.i, false); ok {
			return r.asValue()
		}
	case xc && yn:
		if r, ok := m.withConst(op, x.i, true); ok {
			return r.asValue()
		}
	case op == '+':
		if s, ok := concatStrings(a, b); ok {
			return singleBranch(s), nil
		}
	}
	return t.opaqueFunction(e, a, b)
}

// concatStrings joins strings of which one at most is not constant.
func concatStrings(a, b sval) (sval, bool) {
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

// isString translates isURL and the like.
func (t *translator) isString(e *expr, a sval) (value, error) {
	if b, ok := t.isA(e.name, a); ok {
		return singleBranch(b), nil
	}
	return t.opaqueFunction(e, a)
}

// fromString translates url(s) and the like: an error where the string cannot be converted.
func (t *translator) fromString(e *expr, a sval) (value, error) {
	valid, ok := t.isA(conversions[e.name], a)
	x, ok2 := t.termOf(a)
	if !ok || !ok2 || x.partial {
		return t.opaqueFunction(e, a)
	}
	out := functionTerm(e.name, e.name, false, x)
	if s, ok := a.(strAt); ok {
		out.of = &s
	}
	return value{}.addBranch(valid.t, out), nil
}

// toDuration translates duration(a). Of a text at a place, the branch says where it is one: certainly where all
// digits are few enough not to overflow, certainly not where the form is wrong, and opaque in between
// (time.ParseDuration).
func (t *translator) toDuration(e *expr, a sval) (value, error) {
	switch a := a.(type) {
	case durV:
		return singleBranch(a), nil
	case strV:
		d, err := time.ParseDuration(string(a))
		if err != nil {
			return nil, nil //nolint:nilerr // an error of the rule is no value
		}
		return singleBranch(durV(d)), nil
	case strAt:
		if a.isPlain() {
			x, _ := t.termOf(a)
			valid := refineByPatterns(a.at, known{shortDuration, duration}, t.predicateOf(functionTerm("is duration", "bool", false, x)))
			n := newNum(durationIn{ref: a.ref, t: t})
			n.typ = durationType
			return value{}.addBranch(valid.t, n), nil
		}
	case numV:
		if a.typ == durationType {
			return singleBranch(a), nil
		}
	}
	return t.opaqueConversion(e, a)
}

// validateFormat evaluates format.validate(s), an optional list of errors.
func (t *translator) validateFormat(e *expr, format, s sval) (value, error) {
	f, ok := format.(formatV)
	if !ok {
		return t.opaqueFunction(e, format, s)
	}
	x, ok := t.termOf(s)
	if !ok || !knownFormats[string(f)] || x.typ != "string" || x.partial {
		return nil, errUnsupported
	}
	b := t.predicateOf(functionTerm("valid "+string(f), "bool", false, x))
	a, isAt := s.(strAt)
	// Four formats are exactly a pattern and a longest length; of the others only the name is known.
	if p, ok := formatPatterns[string(f)]; ok && isAt && a.isPlain() {
		m := matchesPattern(a.ref, p.pattern)
		n := newNum(sizeAt{a.ref, logic.String})
		short, long := n.compareConst(le, num{i: p.max})
		b = boolV{andConds(m.t, short), orConds(m.f, long)}
	}
	return value{}.addBranch(b.t, optV{}).addBranch(b.f, optV{functionTerm("errors "+string(f), "list", false, x)}), nil
}
