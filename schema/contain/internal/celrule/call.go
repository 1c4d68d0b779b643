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
		return t.conditional(e, env)
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
	args, err := t.values(e.args, env)
	if err != nil {
		return nil, err
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

// conditional evaluates c ? a : b.
func (t *translator) conditional(e *expr, env *variable) (value, error) {
	c, err := t.boolean(e.args[0], env)
	if err != nil {
		return nil, err
	}
	v, err := t.values(e.args[1:], env)
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(v[0].under(c.t)), v[1].under(c.f)...), nil
}

func (t *translator) values(exprs []*expr, env *variable) ([]value, error) {
	out := make([]value, len(exprs))
	for i, x := range exprs {
		v, err := t.value(x, env)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
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
		v, err := t.values(args, env)
		if err != nil {
			return nil, err
		}
		return t.pairs(v[0], v[1], func(a, b sval) (value, error) { return t.sets(e.name, a, b) })
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

// mayFail reports whether the value may be an error.
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
	if f := functions()[e.name]; f.one != nil {
		return f.one(t, e, a)
	}
	return t.function(e, a)
}

func (t *translator) binary(e *expr, a, b sval) (value, error) {
	if f := functions()[e.name]; f.two != nil {
		return f.two(t, e, a, b)
	}
	return t.function(e, a, b)
}

func (t *translator) ternary(e *expr, a, b, c sval) (value, error) {
	if f := functions()[e.name]; f.three != nil {
		return f.three(t, e, a, b, c)
	}
	return t.function(e, a, b, c)
}

// fold translates lowerAscii and upperAscii.
func (t *translator) fold(e *expr, a sval) (value, error) {
	switch s := a.(type) {
	case strV:
		return just(strV(foldASCII(string(s), e.name[0]))), nil
	case strAt:
		if s.fold == 0 && s.before+s.after == "" {
			s.fold = e.name[0]
			return just(s), nil
		}
	}
	return t.function(e, a)
}

func (t *translator) negate(e *expr, a sval) (value, error) {
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
	return t.function(e, a)
}

func (t *translator) hasValue(e *expr, a sval) (value, error) {
	if o, ok := a.(optV); ok {
		return just(boolConst(o.v != nil)), nil
	}
	return t.function(e, a)
}

func (t *translator) optValue(e *expr, a sval) (value, error) {
	o, ok := a.(optV)
	switch {
	case !ok:
		return t.function(e, a)
	case o.v == nil:
		return nil, nil
	}
	return just(o.v), nil
}

func (t *translator) typeOf(e *expr, a sval) (value, error) {
	if name := typeName(a); name != "" && !mayFail(a) {
		return just(typeV(name)), nil
	}
	return t.function(e, a)
}

func (*translator) dyn(_ *expr, a sval) (value, error) { return just(a), nil }

// scheme translates getScheme.
func (t *translator) scheme(e *expr, a sval) (value, error) {
	if u, ok := a.(termV); ok && u.of != nil && u.of.plain() {
		return just(schemeAt{*u.of}), nil
	}
	return t.function(e, a)
}

// family translates the family of an IP address.
func (t *translator) family(e *expr, a sval) (value, error) {
	if u, ok := a.(termV); ok && u.of != nil && u.of.plain() && u.typ == "ip" {
		v4 := matching(u.of.ref, `\A`+ipv4+`\z`)
		return value{}.add(v4.t, intV(4)).add(v4.f, intV(6)), nil
	}
	return t.function(e, a)
}

// typeName returns the name of the type, empty if it is not known.
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

func (t *translator) equals(_ *expr, a, b sval) (value, error) {
	r, err := t.equal(a, b)
	return just(r), err
}

func (t *translator) notEquals(_ *expr, a, b sval) (value, error) {
	r, err := t.equal(a, b)
	return just(boolV{r.f, r.t}), err
}

// optSelect translates a.?b.
func (t *translator) optSelect(e *expr, a, b sval) (value, error) {
	if name, ok := b.(strV); ok {
		return t.selectField(a, string(name), true)
	}
	return t.function(e, a, b)
}

func (t *translator) find(e *expr, a, b sval) (value, error) {
	s, ok := a.(strAt)
	arg, ok2 := b.(strV)
	if !ok || !ok2 {
		return t.function(e, a, b)
	}
	if class, ok := prefixOf(string(arg)); ok && s.plain() {
		return just(prefixAt{s.ref, class}), nil
	}
	if _, err := regexp.Compile(string(arg)); err == nil {
		return t.named("find", "string", false, []sval{a, b})
	}
	return t.function(e, a, b)
}

func (t *translator) indexOf(e *expr, a, b sval) (value, error) {
	if s, sep, ok := separated(a, b); ok {
		return just(newNum(indexIn{s.ref, t, sep})), nil
	}
	return t.function(e, a, b)
}

func (t *translator) split(e *expr, a, b sval) (value, error) {
	s, sep, ok := separated(a, b)
	if !ok || len([]rune(sep)) != 1 {
		return t.function(e, a, b)
	}
	x, _ := t.term(s)
	out := apply("split", "list", false, x, termV{text: writeConst(sep)})
	out.split = &partsOf{s.ref, t, sep}
	return just(out), nil
}

// separated reads a string at a place and a constant that is looked for in it.
func separated(a, b sval) (s strAt, sep string, ok bool) {
	s, ok = a.(strAt)
	arg, ok2 := b.(strV)
	return s, string(arg), ok && ok2 && s.plain() && len(arg) > 0
}

// substringFrom translates substring(i) and charAt(i).
func (t *translator) substringFrom(e *expr, a, b sval) (value, error) {
	if i, ok := b.(intV); ok {
		return t.substring(e, a, int64(i), -1)
	}
	return t.function(e, a, b)
}

// substringTo translates substring(i, j).
func (t *translator) substringTo(e *expr, a, b, c sval) (value, error) {
	lo, ok := b.(intV)
	hi, ok2 := c.(intV)
	switch {
	case !ok || !ok2:
		return t.function(e, a, b, c)
	case hi < 0:
		return nil, nil
	}
	return t.substring(e, a, int64(lo), int64(hi))
}
