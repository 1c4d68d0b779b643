package celrule

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice.dev/schema/contain/internal/logic"
)

// partsOf is the number of parts of a string between separators of one code point.
type partsOf struct {
	ref
	t   *translator
	sep string
}

func (b partsOf) indexBounds() (int64, int64) { return 1, maxSize }
func (b partsOf) numberAt(i int64) num        { return num{i: i} }

func (b partsOf) asTerm() (termV, bool) {
	return termV{text: operatorText("parts", mark, writeConst(b.sep)), refs: []ref{b.ref}, typ: "int"}, true
}

func (b partsOf) indexWithin(lo, hi int64) *cond {
	if lo > maxRepeat || hi > maxRepeat && hi < maxSize {
		return b.t.indexBetween(b, lo, hi)
	}
	q := regexp.QuoteMeta(b.sep)
	other := "[^" + escapeClass(b.sep) + "]*"
	times := "{" + strconv.FormatInt(lo-1, 10) + ","
	if hi < maxSize {
		times += strconv.FormatInt(hi-1, 10)
	}
	return leafCond(b.ref.at, logic.Pattern{Expr: `\A` + other + "(?:" + q + other + ")" + times + `}\z`})
}

// escapeClass writes a code point for use in a class of a regular expression.
func escapeClass(s string) string {
	r, _ := utf8.DecodeRuneInString(s)
	return `\x{` + strconv.FormatInt(int64(r), 16) + `}`
}

// indexIn is the index of the first occurrence of a constant in a string, -1 if there is none.
type indexIn struct {
	ref
	t   *translator
	sub string
}

func (b indexIn) indexBounds() (int64, int64) { return -1, maxSize }
func (b indexIn) numberAt(i int64) num        { return num{i: i} }

func (b indexIn) asTerm() (termV, bool) {
	return termV{text: operatorText("index", mark, writeConst(b.sub)), refs: []ref{b.ref}, typ: "int"}, true
}

func (b indexIn) indexWithin(lo, hi int64) *cond {
	if lo > maxRepeat || hi > maxRepeat && hi < maxSize {
		return b.t.indexBetween(b, lo, hi)
	}
	// upTo says that the constant occurs at n or before.
	upTo := func(n int64) boolV {
		p := regexp.QuoteMeta(b.sub)
		switch {
		case n < 0:
			return boolConst(false)
		case n < maxSize:
			p = `\A(?s:.{0,` + strconv.FormatInt(n, 10) + `})` + p
		}
		return matchesPattern(b.ref, p)
	}
	if lo < 0 {
		return orConds(upTo(maxSize).f, upTo(hi).t)
	}
	return andConds(upTo(hi).t, upTo(lo-1).f)
}

// indexBetween says that a number that is not understood is within bounds.
func (t *translator) indexBetween(b numBase, lo, hi int64) *cond {
	x, _ := b.asTerm()
	return t.predicateOf(functionTerm("between "+strconv.FormatInt(lo, 10)+" and "+strconv.FormatInt(hi, 10), "bool", false, x)).t
}

// compareStringConst compares a string with a constant, in the order of code points, which for UTF-8 is that of bytes.
func compareStringConst(s strAt, o ordering, c string) boolV {
	// The greater strings: those that continue after c, and those that have a greater code point before the end of c.
	var alts []string
	if o == ge || o == lt {
		alts = append(alts, regexp.QuoteMeta(c))
	} else {
		alts = append(alts, regexp.QuoteMeta(c)+`(?s:.)`)
	}
	for i, r := range c {
		if r < utf8.MaxRune {
			alts = append(alts, regexp.QuoteMeta(c[:i])+`[\x{`+strconv.FormatInt(int64(r)+1, 16)+`}-\x{10FFFF}]`)
		}
	}
	b := matchesPattern(s.ref, `\A(?:`+strings.Join(alts, "|")+`)`)
	if o == lt || o == le {
		return boolV{b.f, b.t}
	}
	return b
}

// maxOrdered is the longest constant that strings are compared with.
const maxOrdered = 200

// evalSets evaluates functions of the sets library for a list of plain strings at a place and one of constants.
func (t *translator) evalSets(name string, a, b sval) (value, error) {
	atA, ok := a.(refV)
	atB, ok2 := b.(refV)
	la, okA := a.(listV)
	lb, okB := b.(listV)
	var at refV
	var l listV
	switch {
	case ok && okB:
		at, l = atA, lb
	case ok2 && okA:
		at, l = atB, la
	default:
		return t.namedTerm("sets."+name, "bool", true, []sval{a, b})
	}
	consts, okC := l.constantStrings()
	n := at.node
	if !okC || n.Type != "array" || n.Items == nil || n.Items.Type != "string" || n.Items.IntOrString || n.Items.Nullable || celTypeOfFormat(n.Items) != "" {
		return nil, errUnsupported
	}
	each, err := t.eachIn(consts, at)
	if err != nil {
		return nil, err
	}
	all, some := boolConst(true), boolConst(false)
	for _, b := range each {
		all = boolV{andConds(all.t, b.t), orConds(all.f, b.f)}
		some = boolV{orConds(some.t, b.t), andConds(some.f, b.f)}
	}
	values := make([]any, len(consts))
	for i, c := range consts {
		values[i] = c
	}
	only := boolV{
		leafCond(at.at, logic.Items{F: logic.Enum{Values: values}}),
		leafCond(at.at, logic.SomeItem{F: logic.Enum{Values: values, Neg: true}}),
	}
	switch {
	case name == "intersects":
		return singleBranch(some), nil
	case name == "contains" && ok:
		return singleBranch(all), nil
	case name == "contains":
		return singleBranch(only), nil
	case name == "equivalent":
		return singleBranch(boolV{andConds(all.t, only.t), orConds(all.f, only.f)}), nil
	}
	return nil, errUnsupported
}

// eachIn says of each string whether it is in the list.
func (t *translator) eachIn(consts []string, at refV) ([]boolV, error) {
	out := make([]boolV, len(consts))
	for i, c := range consts {
		v, err := t.inArray(strV(c), at)
		if err != nil {
			return nil, err
		}
		if out[i], err = t.asBool(v, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}
