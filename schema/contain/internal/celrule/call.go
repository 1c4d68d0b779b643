package celrule

import (
	"regexp"
	"slices"

	"github.com/google/cel-go/common/operators"

	"sluice.dev/schema/contain/internal/logic"
)

// call evaluates a call.
func (t *translator) call(e *expr, env *variable) (value, error) {
	switch e.name {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
		b, err := t.boolean(e, env)
		return just(b), err
	case operators.Conditional:
		c, err := t.boolean(e.args[0], env)
		if err != nil {
			return nil, err
		}
		a, err := t.value(e.args[1], env)
		if err != nil {
			return nil, err
		}
		b, err := t.value(e.args[2], env)
		if err != nil {
			return nil, err
		}
		return append(slices.Clone(a.under(c.t)), b.under(c.f)...), nil
	case "has":
		if e.isHas() {
			return t.has(e, env)
		}
	}
	if e.binders() > 0 {
		return t.macro(e, env)
	}
	if e.member && e.args[0].kind == ident && env.find(e.args[0].name) == nil {
		return t.namespaced(e, env)
	}
	args := make([]value, len(e.args))
	for i, a := range e.args {
		v, err := t.value(a, env)
		if err != nil {
			return nil, err
		}
		args[i] = v
	}
	switch len(args) {
	case 1:
		return t.each(args[0], func(a sval) (value, error) { return t.unary(e, a) })
	case 2:
		if e.name == "or" || e.name == "orValue" {
			return t.orElse(e.name, args[0], args[1])
		}
		return t.pairs(args[0], args[1], func(a, b sval) (value, error) { return t.binary(e, a, b) })
	case 3:
		return t.each(args[0], func(a sval) (value, error) {
			return t.pairs(args[1], args[2], func(b, c sval) (value, error) {
				return t.ternary(e, a, b, c)
			})
		})
	}
	return nil, errUnsupported
}

// namespaced evaluates functions with a dot in their name: optional.of, format.dns1123Label and the like.
func (t *translator) namespaced(e *expr, env *variable) (value, error) {
	ns, args := e.args[0].name, e.args[1:]
	switch {
	case ns == "optional" && e.name == "none" && len(args) == 0:
		return just(optV{}), nil
	case ns == "optional" && e.name == "of" && len(args) == 1:
		v, err := t.value(args[0], env)
		if err != nil {
			return nil, err
		}
		return t.each(v, func(s sval) (value, error) { return just(optV{s}), nil })
	case ns == "format" && len(args) == 0:
		return just(formatV(e.name)), nil
	case ns == "format" && e.name == "named" && len(args) == 1 && args[0].kind == literal:
		if s, ok := args[0].val.(string); ok {
			if knownFormats[s] {
				return just(optV{formatV(s)}), nil
			}
			return just(optV{}), nil
		}
	}
	return nil, errUnsupported
}

// orElse evaluates a.or(b) and a.orValue(b); b counts only where a is none.
func (t *translator) orElse(name string, a, b value) (value, error) {
	return t.each(a, func(s sval) (value, error) {
		o, ok := s.(optV)
		switch {
		case !ok:
			return nil, errUnsupported
		case o.v == nil:
			return b, nil
		case name == "or":
			return just(o), nil
		}
		return just(o.v), nil
	})
}

func (t *translator) unary(e *expr, a sval) (value, error) {
	switch e.name {
	case "size":
		return t.size(a)
	case operators.Negate:
		if c, ok := constNum(a); ok {
			z := num{dbl: c.dbl}
			if c.dbl {
				return just(dblV(-c.d)), nil
			}
			if r, ok := arith('-', z, c); ok {
				return just(numVal(r)), nil
			}
			return nil, nil
		}
		if n, ok := a.(numV); ok {
			if r, ok := n.withConst('-', num{dbl: n.at(n.lo).dbl}, true); ok && !n.at(n.lo).dbl {
				return just(r), nil
			}
		}
	case "hasValue":
		if o, ok := a.(optV); ok {
			return just(boolConst(o.v != nil)), nil
		}
	case "value":
		if o, ok := a.(optV); ok {
			if o.v == nil {
				return nil, nil
			}
			return just(o.v), nil
		}
	case "type":
		if name := typeName(a); name != "" {
			return just(typeV(name)), nil
		}
	case "dyn":
		return just(a), nil
	case "string", "int", "double", "uint", "bool", "bytes", "duration", "timestamp":
		return t.convert(e.name, a)
	}
	return t.function(e, a)
}

// typeName returns the name of the type, empty where it is not known.
func typeName(v sval) string {
	switch v := v.(type) {
	case nullV:
		return "null_type"
	case intV:
		return "int"
	case uintV:
		return "uint"
	case dblV:
		return "double"
	case strV, strAt:
		return "string"
	case rawV:
		return "bytes"
	case boolV:
		return "bool"
	case numV:
		if v.at(v.lo).dbl {
			return "double"
		}
		return "int"
	case typeV:
		return "type"
	case listV, comprV:
		return "list"
	case mapV:
		return "map"
	case refV:
		if v.node.Type == "array" {
			return "list"
		}
		return "map"
	case constV:
		if _, ok := v.val.([]any); ok {
			return "list"
		}
		return "map"
	case termV:
		return v.typ
	}
	return ""
}

// size evaluates size(a).
func (t *translator) size(a sval) (value, error) {
	switch a := a.(type) {
	case strV:
		return just(intV(len([]rune(string(a))))), nil
	case strAt:
		n := newNum(sizeAt{a.ref, logic.String})
		if extra := len([]rune(a.before + a.after)); extra > 0 {
			n, _ = n.withConst('+', num{i: int64(extra)}, false)
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
		case strV, strAt:
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
			if !v.at(v.lo).dbl {
				return just(a), nil
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
			return just(v.apply(numOp{toDouble, "double"}, false)), nil
		}
	case "bool":
		if _, ok := a.(boolV); ok {
			return just(a), nil
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

func (t *translator) binary(e *expr, a, b sval) (value, error) {
	switch e.name {
	case operators.Equals, operators.NotEquals:
		r, err := t.equal(a, b)
		if err != nil {
			return nil, err
		}
		if e.name == operators.NotEquals {
			r = boolV{r.f, r.t}
		}
		return just(r), nil
	case operators.Less:
		return t.compare(lt, a, b)
	case operators.LessEquals:
		return t.compare(le, a, b)
	case operators.Greater:
		return t.compare(gt, a, b)
	case operators.GreaterEquals:
		return t.compare(ge, a, b)
	case operators.In:
		return t.in(a, b)
	case operators.Index:
		return t.index(a, b, false)
	case operators.OptIndex:
		return t.index(a, b, true)
	case operators.OptSelect:
		if name, ok := b.(strV); ok {
			return t.selectField(a, string(name), true)
		}
	case operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo:
		return t.arithmetic(e, a, b)
	case "matches", "startsWith", "endsWith", "contains":
		return t.text(e.name, a, b)
	case "validate":
		if f, ok := a.(formatV); ok {
			return t.validate(f, b)
		}
	}
	return t.function(e, a, b)
}

func (t *translator) ternary(e *expr, a, b, c sval) (value, error) {
	return t.function(e, a, b, c)
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
			return just(numVal(r)), nil
		}
		return nil, nil
	case xn && yc:
		if r, ok := n.withConst(op, y, false); ok {
			return just(r), nil
		}
	case xc && yn:
		if r, ok := m.withConst(op, x, true); ok {
			return just(r), nil
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

// compare evaluates <, <=, > and >=.
func (t *translator) compare(o ordering, a, b sval) (value, error) {
	x, xc := constNum(a)
	y, yc := constNum(b)
	n, xn := a.(numV)
	m, yn := b.(numV)
	switch {
	case xc && yc:
		return just(boolConst(o.holds(x.compare(y)))), nil
	case xn && yc:
		tr, fa := n.compareConst(o, y)
		return just(boolV{tr, fa}), nil
	case xc && yn:
		tr, fa := m.compareConst(o.flip(), x)
		return just(boolV{tr, fa}), nil
	case xn && yn:
		return t.relation(o, a, b)
	}
	sa, sac := a.(strV)
	sb, sbc := b.(strV)
	if sac && sbc {
		return just(boolConst(o.holds(sign(sa < sb, sa > sb)))), nil
	}
	ta, tb := typeName(a), typeName(b)
	if ta != "" && ta == tb {
		switch ta {
		case "string", "bytes", "google.protobuf.Duration", "google.protobuf.Timestamp", "int", "double":
			return t.relation(o, a, b)
		}
	}
	numeric := func(s string) bool { return s == "int" || s == "double" || s == "uint" }
	if numeric(ta) && numeric(tb) {
		return t.relation(o, a, b)
	}
	if (isDyn(a) || isDyn(b)) && ta != "" && tb != "" && ta != tb {
		return nil, nil // no such overload
	}
	return nil, errUnsupported
}

// relation compares two values of which nothing is known but that both are there.
func (t *translator) relation(o ordering, a, b sval) (value, error) {
	if o == gt || o == ge {
		a, b, o = b, a, o.flip()
	}
	valid := yes
	for _, v := range []sval{a, b} {
		if n, ok := v.(numV); ok {
			valid = and(valid, n.valid())
		}
	}
	// a < b and !(b <= a) are the same statement: the operands that are written first decide the form.
	x, ok := t.term(a)
	y, ok2 := t.term(b)
	if !ok || !ok2 {
		return nil, errUnsupported
	}
	name, flip := o.text(), false
	if y.order() < x.order() {
		x, y = y, x
		name, flip = map[string]string{"<": "<=", "<=": "<"}[name], true
	}
	r := t.predicate(apply(name, "bool", false, x, y))
	if flip {
		r = boolV{r.f, r.t}
	}
	return value{}.add(valid, r), nil
}

// text evaluates the functions that look into strings.
func (t *translator) text(name string, a, b sval) (value, error) {
	if isDyn(a) && typeName(a) != "string" {
		return nil, nil
	}
	arg, ok := b.(strV)
	if !ok {
		if typeName(a) == "string" && typeName(b) == "string" && name != "matches" {
			return t.total(name, a, b)
		}
		return t.partial(name, a, b)
	}
	pattern := string(arg)
	switch name {
	case "startsWith":
		pattern = `\A` + regexp.QuoteMeta(pattern)
	case "endsWith":
		pattern = regexp.QuoteMeta(pattern) + `\z`
	case "contains":
		pattern = regexp.QuoteMeta(pattern)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, errUnsupported
	}
	switch a := a.(type) {
	case strV:
		return just(boolConst(re.MatchString(string(a)))), nil
	case strAt:
		if a.before == "" && a.after == "" {
			return just(matching(a.ref, pattern)), nil
		}
		if p, ok := trimmed(name, string(arg), a); ok {
			return just(p), nil
		}
	case termV:
	default:
		return nil, errUnsupported
	}
	return t.total(name, a, b)
}

// matching says that a string matches a pattern, or does not.
func matching(r ref, pattern string) boolV {
	return boolV{leaf(r.at, logic.Pattern{Expr: pattern}), leaf(r.at, logic.Pattern{Expr: pattern, Neg: true})}
}

// trimmed decides functions on a string with constant parts before or after it, where the constant part alone does.
func trimmed(name, arg string, a strAt) (boolV, bool) {
	switch name {
	case "startsWith":
		if n := min(len(arg), len(a.before)); arg[:n] != a.before[:n] {
			return boolConst(false), true
		}
		if len(arg) <= len(a.before) {
			return boolConst(true), true
		}
		if a.after == "" {
			return matching(a.ref, `\A`+regexp.QuoteMeta(arg[len(a.before):])), true
		}
	case "endsWith":
		n := min(len(arg), len(a.after))
		if arg[len(arg)-n:] != a.after[len(a.after)-n:] {
			return boolConst(false), true
		}
		if len(arg) <= len(a.after) {
			return boolConst(true), true
		}
		if a.before == "" {
			return matching(a.ref, regexp.QuoteMeta(arg[:len(arg)-len(a.after)])+`\z`), true
		}
	}
	return boolV{}, false
}
