package celrule

import (
	"regexp"
	"slices"

	"github.com/google/cel-go/common/operators"
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
		if e.name == operators.Add {
			if v, ok := addSums(args[0], args[1]); ok {
				return v, nil
			}
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
		return t.each(v, some)
	case ns == "sets" && len(args) == 2:
		a, err := t.value(args[0], env)
		if err != nil {
			return nil, err
		}
		b, err := t.value(args[1], env)
		if err != nil {
			return nil, err
		}
		return t.pairs(a, b, func(a, b sval) (value, error) { return t.sets(e.name, a, b) })
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

// some makes an optional value that has a value.
func some(s sval) (value, error) {
	if mayFail(s) {
		return nil, errUnsupported
	}
	return just(optV{s}), nil
}

// mayFail tells whether the value may be an error.
func mayFail(s sval) bool {
	x, ok := s.(termV)
	return ok && x.partial
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
	case "lowerAscii", "upperAscii":
		switch s := a.(type) {
		case strV:
			return just(strV(foldASCII(string(s), e.name[0]))), nil
		case strAt:
			if s.fold == 0 && s.before+s.after == "" {
				s.fold = e.name[0]
				return just(s), nil
			}
		}
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
			if r, ok := n.withConst('-', num{}, true); ok {
				return r.result(), nil
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
		if name := typeName(a); name != "" && !mayFail(a) {
			return just(typeV(name)), nil
		}
	case "dyn":
		return just(a), nil
	case "isURL", "isIP", "isCIDR", "isQuantity":
		if b, ok := t.isA(e.name, a); ok {
			return just(b), nil
		}
	case "url", "ip", "cidr", "quantity":
		if v, ok := t.fromString(e.name, a); ok {
			return v, nil
		}
	case "getScheme":
		if u, ok := a.(termV); ok && u.of != nil && u.of.plain() {
			return just(schemeAt{*u.of}), nil
		}
	case "family":
		if u, ok := a.(termV); ok && u.of != nil && u.of.plain() && u.typ == "ip" {
			v4 := matching(u.of.ref, `\A`+ipv4+`\z`)
			return value{}.add(v4.t, intV(4)).add(v4.f, intV(6)), nil
		}
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
	case strV, strAt, schemeAt:
		return "string"
	case rawV:
		return "bytes"
	case boolV:
		return "bool"
	case durV:
		return durationType
	case numV:
		switch {
		case v.typ != "":
			return v.typ
		case v.at(v.lo).dbl:
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
	case "find":
		s, ok := a.(strAt)
		arg, ok2 := b.(strV)
		if !ok || !ok2 {
			break
		}
		if class, ok := prefixOf(string(arg)); ok && s.plain() {
			return just(prefixAt{s.ref, class}), nil
		}
		if _, err := regexp.Compile(string(arg)); err == nil {
			return t.named("find", "string", false, []sval{a, b})
		}
	case "split", "indexOf":
		s, ok := a.(strAt)
		arg, ok2 := b.(strV)
		if ok && ok2 && s.plain() && len(arg) > 0 {
			if e.name == "indexOf" {
				return just(newNum(indexIn{s.ref, t, string(arg)})), nil
			}
			if len([]rune(string(arg))) == 1 {
				x, _ := t.term(s)
				out := apply("split", "list", false, x, termV{text: writeConst(string(arg))})
				out.split = &partsOf{s.ref, t, string(arg)}
				return just(out), nil
			}
		}
	case "substring", "charAt":
		if i, ok := b.(intV); ok {
			return t.substring(e, a, int64(i), -1)
		}
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
	if lo, ok := b.(intV); ok && e.name == "substring" {
		if hi, ok := c.(intV); ok {
			if hi < 0 {
				return nil, nil
			}
			return t.substring(e, a, int64(lo), int64(hi))
		}
	}
	return t.function(e, a, b, c)
}
