package celrule

// What is the beginning of a string up to a separator? For example, self.find('^([^/]+)').endsWith('.io') is a pattern of the whole string.

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice.dev/schema/contain/internal/logic"
)

// prefixOf reads an expression like ^([^/]+) as a class.
func prefixOf(expr string) ([]rune, bool) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil || re.Op != syntax.OpConcat || len(re.Sub) != 2 || re.Sub[0].Op != syntax.OpBeginText {
		return nil, false
	}
	re = re.Sub[1]
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	if re.Op != syntax.OpPlus && re.Op != syntax.OpStar || re.Flags&syntax.NonGreedy != 0 {
		return nil, false
	}
	if c := re.Sub[0]; c.Op == syntax.OpCharClass && len(c.Rune) > 0 {
		return c.Rune, true
	}
	return nil, false
}

// allBut is the class of all code points but one.
func allBut(r rune) []rune {
	switch r {
	case 0:
		return []rune{1, utf8.MaxRune}
	case utf8.MaxRune:
		return []rune{0, r - 1}
	}
	return []rune{0, r - 1, r + 1, utf8.MaxRune}
}

// bracketClass writes the class, or its complement.
func (p prefixAt) bracketClass(not bool) string {
	var b strings.Builder
	b.WriteString("[")
	if not {
		b.WriteString("^")
	}
	for i := 0; i+1 < len(p.class); i += 2 {
		b.WriteString(`\x{` + strconv.FormatInt(int64(p.class[i]), 16) + `}-\x{` + strconv.FormatInt(int64(p.class[i+1]), 16) + `}`)
	}
	return b.String() + "]"
}

// classHasAll reports whether the class has all code points of s.
func (p prefixAt) classHasAll(s string) bool {
next:
	for _, r := range s {
		for i := 0; i+1 < len(p.class); i += 2 {
			if p.class[i] <= r && r <= p.class[i+1] {
				continue next
			}
		}
		return false
	}
	return true
}

// endPattern matches the end of the prefix.
func (p prefixAt) endPattern() string { return "(?:" + p.bracketClass(true) + `|\z)` }

// oneOf says that the prefix is one of several strings.
func (p prefixAt) oneOf(consts []string) boolV {
	var alts []string
	for _, c := range consts {
		if p.classHasAll(c) {
			alts = append(alts, regexp.QuoteMeta(c))
		}
	}
	if len(alts) == 0 {
		return boolConst(false)
	}
	return matchesPattern(p.ref, `\A(?:`+strings.Join(alts, "|")+")"+p.endPattern())
}

// evalSearch evaluates startsWith, endsWith and contains.
func (p prefixAt) evalSearch(name, arg string) (boolV, bool) {
	switch {
	case name == "matches":
		return boolV{}, false
	case arg == "":
		return boolConst(true), true
	case !p.classHasAll(arg):
		return boolConst(false), true
	}
	q := regexp.QuoteMeta(arg)
	switch name {
	case "startsWith":
		return matchesPattern(p.ref, `\A`+q), true
	case "endsWith":
		return matchesPattern(p.ref, `\A`+p.bracketClass(false)+"*"+q+p.endPattern()), true
	}
	return matchesPattern(p.ref, `\A`+p.bracketClass(false)+"*"+q), true
}

func (p prefixAt) idText() string { return operatorText("prefix", mark, p.bracketClass(false)) }

// prefixInt is the number that a prefix is read as by int().
type prefixInt struct{ of prefixAt }

func (b prefixInt) indexBounds() (int64, int64) { return -1 << 63, 1<<63 - 1 }
func (b prefixInt) numberAt(i int64) num        { return num{i: i} }
func (b prefixInt) asTerm() (termV, bool) {
	return termV{text: operatorText("int", b.of.idText()), refs: []ref{b.of.ref}, typ: "int"}, true
}

func (b prefixInt) indexWithin(lo, hi int64) *cond {
	return leafCond(b.of.at, logic.Pattern{Expr: `\A` + integerPattern(lo, hi) + b.of.endPattern()})
}
