package celrule

// How many parts does a string have between separators? For example, self.split(':').size() == 2 is a pattern with one colon.

import (
	"regexp"
	"strconv"
	"unicode/utf8"

	"sluice.dev/schema/contain/internal/logic"
)

func (b partsOf) indexBounds() (int64, int64) { return 1, maxSize }
func (b partsOf) numberAt(i int64) num        { return num{i: i} }

func (b partsOf) asTerm() (termV, bool) {
	return termV{text: operatorText("parts", mark, writeConst(b.sep)), refs: []ref{b.ref}, typ: "int"}, true
}

// indexWithin says that the string has from lo to hi parts: a pattern with lo-1 to hi-1 separators. RE2 counts up to
// maxRepeat; for more, the statement is opaque.
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
	return leafCond(b.at, logic.Pattern{Expr: `\A` + other + "(?:" + q + other + ")" + times + `}\z`})
}

// escapeClass writes a code point for use in a class of a regular expression.
func escapeClass(s string) string {
	r, _ := utf8.DecodeRuneInString(s)
	return `\x{` + strconv.FormatInt(int64(r), 16) + `}`
}

// indexBetween says that a number that is not understood is within bounds.
func (t *translator) indexBetween(b numBase, lo, hi int64) *cond {
	x, _ := b.asTerm()
	return t.predicateOf(functionTerm("between "+strconv.FormatInt(lo, 10)+" and "+strconv.FormatInt(hi, 10), "bool", false, x)).t
}
