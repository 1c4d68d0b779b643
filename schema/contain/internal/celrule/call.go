package celrule

// What is the value of a call? This file finds the translation of a function in the table of functions and applies it to each possible
// value of the arguments. For example, self.?a.orValue(0) is the value of a where there is one, and 0 elsewhere.

import (
	"regexp"
	"slices"

	"github.com/google/cel-go/common/operators"
)

// evalCall evaluates a call.
func (t *translator) evalCall(e *expr, env *variable) (value, error) {
	switch e.name {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
		b, err := t.evalBoolean(e, env)
		return singleBranch(b), err
	case operators.Conditional:
		return t.evalConditional(e, env)
	case "has":
		if e.isHas() {
			return t.evalHas(e, env)
		}
	}
	if e.binders() > 0 {
		return t.evalMacro(e, env)
	}
	if e.member && e.args[0].kind == ident && env.findVariable(e.args[0].name) == nil {
		return t.evalNamespaced(e, env)
	}
	args, err := t.evalAll(e.args, env)
	if err != nil {
		return nil, err
	}
	switch len(args) {
	case 1:
		return t.eachBranch(args[0], func(a sval) (value, error) { return t.evalUnary(e, a) })
	case 2:
		return t.evalPair(e, args[0], args[1])
	case 3:
		return t.eachBranch(args[0], func(a sval) (value, error) {
			return t.eachPair(args[1], args[2], func(b, c sval) (value, error) {
				return t.evalTernary(e, a, b, c)
			})
		})
	}
	return nil, errUnsupported
}

// evalPair evaluates a call with two arguments, each pair of their values by itself, unless the function needs all values of both.
func (t *translator) evalPair(e *expr, a, b value) (value, error) {
	switch e.name {
	case "or", "orValue":
		return t.orElse(e.name, a, b)
	case operators.Add:
		if v, ok := addSums(a, b); ok {
			return v, nil
		}
	}
	return t.eachPair(a, b, func(a, b sval) (value, error) { return t.evalBinary(e, a, b) })
}

// evalConditional evaluates c ? a : b.
func (t *translator) evalConditional(e *expr, env *variable) (value, error) {
	c, err := t.evalBoolean(e.args[0], env)
	if err != nil {
		return nil, err
	}
	v, err := t.evalAll(e.args[1:], env)
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(v[0].guardedBy(c.t)), v[1].guardedBy(c.f)...), nil
}

func (t *translator) evalAll(exprs []*expr, env *variable) ([]value, error) {
	out := make([]value, len(exprs))
	for i, x := range exprs {
		v, err := t.evalValue(x, env)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// evalNamespaced evaluates functions with a dot in their name: optional.of, format.dns1123Label and the like.
func (t *translator) evalNamespaced(e *expr, env *variable) (value, error) {
	ns, args := e.args[0].name, e.args[1:]
	switch {
	case ns == "optional" && e.name == "none" && len(args) == 0:
		return singleBranch(optV{}), nil
	case ns == "optional" && e.name == "of" && len(args) == 1:
		v, err := t.evalValue(args[0], env)
		if err != nil {
			return nil, err
		}
		return t.eachBranch(v, optionalWith)
	case ns == "format" && len(args) == 0:
		return singleBranch(formatV(e.name)), nil
	}
	return nil, errUnsupported
}

// optionalWith makes an optional value that has a value.
func optionalWith(s sval) (value, error) {
	if mayFail(s) {
		return nil, errUnsupported
	}
	return singleBranch(optV{s}), nil
}

// mayFail reports whether the value may be an error.
func mayFail(s sval) bool {
	x, ok := s.(termV)
	return ok && x.partial
}

// orElse evaluates a.or(b) and a.orValue(b); b counts only where a is none.
func (t *translator) orElse(name string, a, b value) (value, error) {
	return t.eachBranch(a, func(s sval) (value, error) {
		o, ok := s.(optV)
		switch {
		case !ok:
			return nil, errUnsupported
		case o.v == nil:
			return b, nil
		case name == "or":
			return singleBranch(o), nil
		}
		return singleBranch(o.v), nil
	})
}

func (t *translator) evalUnary(e *expr, a sval) (value, error) {
	if f := functionsByName()[e.name]; f.one != nil {
		return f.one(t, e, a)
	}
	return t.opaqueFunction(e, a)
}

func (t *translator) evalBinary(e *expr, a, b sval) (value, error) {
	if f := functionsByName()[e.name]; f.two != nil {
		return f.two(t, e, a, b)
	}
	return t.opaqueFunction(e, a, b)
}

func (t *translator) evalTernary(e *expr, a, b, c sval) (value, error) {
	if f := functionsByName()[e.name]; f.three != nil {
		return f.three(t, e, a, b, c)
	}
	return t.opaqueFunction(e, a, b, c)
}

// evalCaseFold translates lowerAscii and upperAscii.
func (t *translator) evalCaseFold(e *expr, a sval) (value, error) {
	switch s := a.(type) {
	case strV:
		return singleBranch(strV(foldASCII(string(s), e.name[0]))), nil
	case strAt:
		if s.fold == 0 && s.before+s.after == "" {
			s.fold = e.name[0]
			return singleBranch(s), nil
		}
	}
	return t.opaqueFunction(e, a)
}

func (t *translator) hasValue(e *expr, a sval) (value, error) {
	if o, ok := a.(optV); ok {
		return singleBranch(boolConst(o.v != nil)), nil
	}
	return t.opaqueFunction(e, a)
}

func (t *translator) optValue(e *expr, a sval) (value, error) {
	o, ok := a.(optV)
	switch {
	case !ok:
		return t.opaqueFunction(e, a)
	case o.v == nil:
		return nil, nil
	}
	return singleBranch(o.v), nil
}

func (t *translator) typeOf(e *expr, a sval) (value, error) {
	if name := typeName(a); name != "" && !mayFail(a) {
		return singleBranch(typeV(name)), nil
	}
	return t.opaqueFunction(e, a)
}

func (*translator) evalDyn(_ *expr, a sval) (value, error) { return singleBranch(a), nil }

// evalGetScheme translates getScheme.
func (t *translator) evalGetScheme(e *expr, a sval) (value, error) {
	if u, ok := a.(termV); ok && u.of != nil && u.of.isPlain() {
		return singleBranch(schemeAt{*u.of}), nil
	}
	return t.opaqueFunction(e, a)
}

// evalIPFamily translates the family of an IP address.
func (t *translator) evalIPFamily(e *expr, a sval) (value, error) {
	if u, ok := a.(termV); ok && u.of != nil && u.of.isPlain() && u.typ == "ip" {
		v4 := matchesPattern(u.of.ref, `\A`+ipv4+`\z`)
		return value{}.addBranch(v4.t, intV(4)).addBranch(v4.f, intV(6)), nil
	}
	return t.opaqueFunction(e, a)
}

// typeName returns the name of the type, empty if it is not known.
func typeName(v sval) string {
	switch v := v.(type) {
	case nullV:
		return "null_type"
	case intV:
		return "int"
	case dblV:
		return "double"
	case strV, strAt, schemeAt, prefixAt:
		return "string"
	case boolV:
		return "bool"
	case durV:
		return durationType
	case numV:
		return v.typeName()
	case typeV:
		return "type"
	case listV, comprV:
		return "list"
	case mapV:
		return "map"
	case refV:
		return listOrMap(v.node.Type == "array")
	case constV:
		_, isList := v.val.([]any)
		return listOrMap(isList)
	case termV:
		return v.typ
	}
	return ""
}

func (n numV) typeName() string {
	switch {
	case n.typ != "":
		return n.typ
	case n.numberAt(n.lo).dbl:
		return "double"
	}
	return "int"
}

func listOrMap(isList bool) string {
	if isList {
		return "list"
	}
	return "map"
}

func (t *translator) evalEquals(_ *expr, a, b sval) (value, error) {
	r, err := t.equalityOf(a, b)
	return singleBranch(r), err
}

func (t *translator) notEquals(_ *expr, a, b sval) (value, error) {
	r, err := t.equalityOf(a, b)
	return singleBranch(boolV{r.f, r.t}), err
}

// optSelect translates a.?b.
func (t *translator) optSelect(e *expr, a, b sval) (value, error) {
	if name, ok := b.(strV); ok {
		return t.selectField(a, string(name), true)
	}
	return t.opaqueFunction(e, a, b)
}

func (t *translator) evalFind(e *expr, a, b sval) (value, error) {
	s, ok := a.(strAt)
	arg, ok2 := b.(strV)
	if !ok || !ok2 {
		return t.opaqueFunction(e, a, b)
	}
	if class, ok := prefixOf(string(arg)); ok && s.isPlain() {
		return singleBranch(prefixAt{s.ref, class}), nil
	}
	if _, err := regexp.Compile(string(arg)); err == nil {
		return t.namedTerm("find", "string", false, []sval{a, b})
	}
	return t.opaqueFunction(e, a, b)
}

func (t *translator) evalSplit(e *expr, a, b sval) (value, error) {
	s, sep, ok := stringAndSeparator(a, b)
	if !ok || len([]rune(sep)) != 1 {
		return t.opaqueFunction(e, a, b)
	}
	x, _ := t.termOf(s)
	out := functionTerm("split", "list", false, x, termV{text: writeConst(sep)})
	out.split = &partsOf{s.ref, t, sep}
	return singleBranch(out), nil
}

// stringAndSeparator reads a string at a place and a constant that is looked for in it.
func stringAndSeparator(a, b sval) (s strAt, sep string, ok bool) {
	s, ok = a.(strAt)
	arg, ok2 := b.(strV)
	return s, string(arg), ok && ok2 && s.isPlain() && len(arg) > 0
}

// substringFrom translates substring(i).
func (t *translator) substringFrom(e *expr, a, b sval) (value, error) {
	if i, ok := b.(intV); ok {
		return evalSubstring(a, int64(i), -1)
	}
	return t.opaqueFunction(e, a, b)
}

// substringTo translates substring(i, j).
func (t *translator) substringTo(e *expr, a, b, c sval) (value, error) {
	lo, ok := b.(intV)
	hi, ok2 := c.(intV)
	switch {
	case !ok || !ok2:
		return t.opaqueFunction(e, a, b, c)
	case hi < 0:
		return nil, nil
	}
	return evalSubstring(a, int64(lo), int64(hi))
}
