package celrule

import (
	"regexp"
	"strings"

	"sluice.dev/schema/contain/internal/logic"
)

// What do functions about strings give? For example, self.s.contains('x') is a pattern, and self.s.split(':') a list of which only the size and the first
// part are known.

// constSearch evaluates a search in a constant.
func constSearch(name, s, arg string) (bool, error) {
	switch name {
	case "startsWith":
		return strings.HasPrefix(s, arg), nil
	case "endsWith":
		return strings.HasSuffix(s, arg), nil
	case "contains":
		return strings.Contains(s, arg), nil
	}
	re, err := regexp.Compile(arg)
	if err != nil {
		return false, err
	}
	return re.MatchString(s), nil
}

// evalStringSearch evaluates the functions that look into strings.
func (t *translator) evalStringSearch(e *expr, a, b sval) (value, error) {
	name := e.name
	if isDyn(a) && a.typeName() != "string" {
		return nil, nil
	}
	if a.typeName() != "string" || b.typeName() != "string" {
		return nil, errUnsupported
	}
	arg, ok := b.(strV)
	if !ok {
		return t.namedTerm(name, "bool", name == "matches", []sval{a, b})
	}
	if _, err := constSearch(name, "", string(arg)); err != nil {
		return nil, errUnsupported // in place of the error of the API server's compiler
	}
	switch a := a.(type) {
	case strV:
		c, err := constSearch(name, string(a), string(arg))
		return singleBranch(boolConst(c)), err
	case strAt:
		if r, ok := a.evalSearch(name, string(arg)); ok {
			return singleBranch(r), nil
		}
	case prefixAt:
		if r, ok := a.evalSearch(name, string(arg)); ok {
			return singleBranch(r), nil
		}
	}
	return t.namedTerm(name, "bool", false, []sval{a, b})
}

// evalCaseFold translates lowerAscii and upperAscii.
func (t *translator) evalCaseFold(e *expr, a sval) (value, error) {
	switch s := a.(type) {
	case strV:
		return singleBranch(strV(foldASCII(string(s), e.name[0]))), nil
	case strAt:
		if s.fold.kind == 0 && s.before+s.after == "" {
			s.fold.kind = e.name[0]
			return singleBranch(s), nil
		}
	}
	return t.opaqueFunction(e, a)
}

// evalTrim translates trim.
func (t *translator) evalTrim(e *expr, a sval) (value, error) {
	switch s := a.(type) {
	case strV:
		return singleBranch(strV(strings.TrimSpace(string(s)))), nil
	case strAt:
		if s.isPlain() {
			s.fold.kind = trimmed
			return singleBranch(s), nil
		}
	}
	return t.opaqueFunction(e, a)
}

// evalReplace translates replace with two code points.
func (t *translator) evalReplace(e *expr, a, from, to sval) (value, error) {
	s, ok := a.(strAt)
	x, ok2 := from.(strV)
	y, ok3 := to.(strV)
	if before, after := []rune(string(x)), []rune(string(y)); ok && ok2 && ok3 && s.isPlain() && len(before) == 1 && len(after) == 1 && x != y {
		s.fold = textChange{replaced, before[0], after[0]}
		return singleBranch(s), nil
	}
	return t.opaqueFunction(e, a, from, to)
}

// evalCharAt translates charAt: behind the last code point is an empty string, and an error after that.
func (t *translator) evalCharAt(e *expr, a, i sval) (value, error) {
	s, ok := a.(strAt)
	at, ok2 := i.(intV)
	if !ok || !ok2 || at < 0 || !s.isPlain() || at >= maxRepeat {
		return t.opaqueFunction(e, a, i)
	}
	n := int64(at)
	v, ok := s.sliceBetween(n, n+1)
	return v.addBranch(leafCond(s.at, logic.Length{Min: n, Max: n}), strV("")), unsupportedUnless(ok)
}

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

// evalFind translates find with a constant. An expression such as ^[^/]+ finds the beginning of the string, which is
// a pattern of the whole one; any other only names its result. One that does not compile may be an error, so its name
// says so; the API server takes no such rule.
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

// evalSplit translates split by one code point. The list only gets a name; its size and its first part are known (see
// partsOf and prefixAt).
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

// evalSubstring evaluates substring.
func evalSubstring(a sval, lo, hi int64) (value, error) {
	if x, ok := a.(strV); ok {
		rs := []rune(string(x))
		n := int64(len(rs))
		switch {
		case lo < 0 || lo > n || hi > n || hi >= 0 && hi < lo:
			return nil, nil
		case hi < 0:
			return singleBranch(strV(rs[lo:])), nil
		}
		return singleBranch(strV(rs[lo:hi])), nil
	}
	s, ok := a.(strAt)
	if !ok {
		return nil, errUnsupported
	}
	v, ok := s.sliceBetween(lo, hi)
	return v, unsupportedUnless(ok)
}
