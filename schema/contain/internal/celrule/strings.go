package celrule

// Which pattern says what a function says about a string? For example, self.s.lowerAscii().startsWith('x') is the pattern ^[Xx].

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice.dev/schema/contain/internal/logic"
)

// isPlain reports whether the string is the unchanged one at the place.
func (s strAt) isPlain() bool {
	return s.lo == 0 && s.hi < 0 && s.fold.kind == 0 && s.before == "" && s.after == ""
}

// idText writes the string, for IDs.
func (s strAt) idText() string {
	x := mark
	if s.lo > 0 || s.hi >= 0 {
		x = operatorText("substring", x, strconv.Itoa(s.lo), strconv.Itoa(s.hi))
	}
	if s.fold.kind != 0 {
		x = operatorText("change-"+string(s.fold.kind)+string(s.fold.from)+string(s.fold.to), x)
	}
	if s.before+s.after != "" {
		x = operatorText("+", writeConst(s.before), x, writeConst(s.after))
	}
	return x
}

// maxRepeat is how often RE2 repeats at most.
const maxRepeat = 1000

// sliceBetween returns a part of the string; a negative hi means the rest from lo. It fails if that cannot be expressed.
func (s strAt) sliceBetween(lo, hi int64) (value, bool) {
	if s.fold.kind != 0 || s.before+s.after != "" || s.lo > 0 || s.hi >= 0 || max(lo, hi) > maxRepeat {
		return nil, false
	}
	if lo < 0 || hi >= 0 && hi < lo {
		return nil, true
	}
	s.lo, s.hi = int(lo), int(hi)
	return value{}.addBranch(leafCond(s.at, logic.Length{Min: max(lo, hi), Max: logic.Unbounded}), s), true
}

// patternBeforeFold writes a pattern of the constant in the string before it is changed; not ok if there is none.
func (s strAt) patternBeforeFold(c string) (string, bool) {
	switch s.fold.kind {
	case 0:
		return regexp.QuoteMeta(c), true
	case trimmed:
		return outerSpace + regexp.QuoteMeta(c) + outerSpace, strings.TrimSpace(c) == c
	}
	var b strings.Builder
	for _, r := range c {
		switch other, ok := s.fold.lettersBefore(r); {
		case !ok:
			return "", false
		case other != r:
			b.WriteString("(?:" + regexp.QuoteMeta(string(r)) + "|" + regexp.QuoteMeta(string(other)) + ")")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return b.String(), true
}

// textChange is a change of a string: of ASCII letters to one case, of each code point from to the code point to, or white space around it is cut.
type textChange struct {
	kind     byte
	from, to rune
}

// The kinds of changes.
const (
	lowered  = 'l'
	uppered  = 'u'
	replaced = 'r'
	trimmed  = 't'
)

// outerSpace matches the white space that trim cuts (unicode.IsSpace).
const outerSpace = `[\t\n\v\f\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]*`

// lettersBefore returns which other letter becomes r, r itself if there is none; not ok if nothing becomes r.
func (c textChange) lettersBefore(r rune) (other rune, ok bool) {
	lower, upper := 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z'
	switch {
	case c.kind == lowered && upper, c.kind == uppered && lower, c.kind == replaced && r == c.from:
		return 0, false
	case c.kind == lowered && lower:
		return r + 'A' - 'a', true
	case c.kind == uppered && upper:
		return r + 'a' - 'A', true
	case c.kind == replaced && r == c.to:
		return c.from, true
	}
	return r, true
}

// changesPattern matches the strings that the change does not leave as they are.
func (c textChange) changesPattern() string {
	switch c.kind {
	case lowered:
		return "[A-Z]"
	case uppered:
		return "[a-z]"
	case replaced:
		return regexp.QuoteMeta(string(c.from))
	}
	space := strings.TrimSuffix(outerSpace, "*")
	return `\A` + space + "|" + space + `\z`
}

// anyCodePoints is a pattern of n code points of any sort, newlines included.
func anyCodePoints(n int) string {
	if n == 0 {
		return ""
	}
	return "(?s:.{" + strconv.Itoa(n) + "})"
}

// oneOf says that the string is one of several, or none.
func (t *translator) oneOf(s strAt, consts []string) boolV {
	var vs []any
	var alts []string
	for _, c := range consts {
		if len(c) < len(s.before)+len(s.after) || !strings.HasPrefix(c, s.before) || !strings.HasSuffix(c, s.after) {
			continue
		}
		c = c[len(s.before) : len(c)-len(s.after)]
		vs = append(vs, c)
		if p, ok := s.patternBeforeFold(c); ok && (s.hi < 0 || utf8.RuneCountInString(c) == s.hi-s.lo) {
			alts = append(alts, p)
		}
	}
	if s.lo == 0 && s.hi < 0 && s.fold.kind == 0 {
		if len(vs) == 0 {
			return boolConst(false)
		}
		return boolV{leafCond(s.at, logic.Enum{Values: vs}), leafCond(s.at, logic.Enum{Values: vs, Neg: true})}
	}
	if len(alts) == 0 {
		return boolConst(false)
	}
	p := `\A` + anyCodePoints(s.lo) + "(?:" + strings.Join(alts, "|") + ")"
	if s.hi < 0 {
		p += `\z`
	}
	return matchesPattern(s.ref, p)
}

// evalSearch evaluates startsWith, endsWith, contains and matches with a constant; not ok if it cannot be expressed.
func (s strAt) evalSearch(name, arg string) (boolV, bool) {
	if name == "matches" {
		return matchesPattern(s.ref, arg), s.isPlain()
	}
	if s.before+s.after != "" {
		return boolV{}, false
	}
	if s.fold.kind == trimmed {
		return s.searchTrimmed(name, arg)
	}
	c, ok := s.patternBeforeFold(arg)
	n := utf8.RuneCountInString(arg)
	if !ok || s.hi >= 0 && n > s.hi-s.lo {
		return boolConst(false), true
	}
	room := s.hi - s.lo - n
	anywhere := `(?s:.*)`
	if s.hi >= 0 {
		anywhere = `(?s:.{0,` + strconv.Itoa(room) + `})`
	}
	start := `\A` + anyCodePoints(s.lo)
	switch {
	case name == "startsWith":
		return matchesPattern(s.ref, start+c), true
	case name == "endsWith" && s.hi >= 0:
		return matchesPattern(s.ref, start+anyCodePoints(room)+c), true
	case name == "endsWith" && s.lo == 0:
		return matchesPattern(s.ref, c+`\z`), true
	case name == "endsWith":
		return matchesPattern(s.ref, start+anywhere+c+`\z`), true
	case s.lo == 0 && s.hi < 0:
		return matchesPattern(s.ref, c), true
	}
	return matchesPattern(s.ref, start+anywhere+c), true
}

// searchTrimmed is evalSearch without the white space around the string.
func (s strAt) searchTrimmed(name, arg string) (boolV, bool) {
	if arg == "" || strings.TrimSpace(arg) != arg {
		return boolV{}, false
	}
	c := regexp.QuoteMeta(arg)
	switch name {
	case "startsWith":
		c = `\A` + outerSpace + c
	case "endsWith":
		c += outerSpace + `\z`
	}
	return matchesPattern(s.ref, c), true
}

// matchesPattern says that a string matches a pattern, or does not.
func matchesPattern(r ref, pattern string) boolV {
	return boolV{leafCond(r.at, logic.Pattern{Expr: pattern}), leafCond(r.at, logic.Pattern{Expr: pattern, Neg: true})}
}

// intIn is the number that int() reads from a string. The index is the number.
type intIn struct{ ref }

func (b intIn) indexBounds() (int64, int64) { return -1 << 63, 1<<63 - 1 }
func (b intIn) numberAt(i int64) num        { return num{i: i} }
func (b intIn) asTerm() (termV, bool) {
	return termV{text: operatorText("int", mark), refs: []ref{b.ref}, typ: "int"}, true
}

func (b intIn) indexWithin(lo, hi int64) *cond {
	return leafCond(b.at, logic.Pattern{Expr: `\A` + integerPattern(lo, hi) + `\z`})
}

// integerPattern returns a regular expression for the texts that int() reads as numbers from lo to hi.
func integerPattern(lo, hi int64) string {
	var alts []string
	if hi >= 0 {
		alts = append(alts, `\+?0*`+decimalPattern(abs(max(lo, 0)), abs(hi)))
	}
	if lo <= 0 {
		// The absolute values: from -hi to -lo.
		from := uint64(0)
		if hi < 0 {
			from = abs(hi)
		}
		alts = append(alts, `-0*`+decimalPattern(from, abs(lo)))
	}
	return "(?:" + strings.Join(alts, "|") + ")"
}

// abs is the absolute value, of the least int64 too.
func abs(i int64) uint64 {
	if i < 0 {
		return -uint64(i) //nolint:gosec // two's complement is meant
	}
	return uint64(i)
}

// decimalPattern returns a regular expression for the numbers from lo to hi, after any number of zeros.
func decimalPattern(lo, hi uint64) string {
	var alts []string
	if lo == 0 {
		alts = append(alts, "0") // the zeros before it may be none
		lo = 1
	}
	for lo <= hi {
		// Numbers of as many digits as lo.
		end := hi
		digits := strconv.FormatUint(lo, 10)
		if nines := strings.Repeat("9", len(digits)); len(digits) < 20 {
			if n, err := strconv.ParseUint(nines, 10, 64); err == nil && n < hi {
				end = n
			}
		}
		alts = append(alts, sameLength(digits, strconv.FormatUint(end, 10)))
		if end == 1<<64-1 {
			break
		}
		lo = end + 1
	}
	return "(?:" + strings.Join(alts, "|") + ")"
}

// decimalsFrom returns a regular expression for the numbers from lo on, after any number of zeros; lo is not 0.
func decimalsFrom(lo uint64) string {
	digits := strconv.FormatUint(lo, 10)
	return "(?:" + sameLength(digits, strings.Repeat("9", len(digits))) + "|[1-9]" + anyDigits(len(digits)) + "[0-9]*)"
}

// sameLength returns a regular expression for the numbers from lo to hi, which have the same number of digits.
func sameLength(lo, hi string) string {
	if lo == hi {
		return lo
	}
	n := len(lo)
	if strings.Trim(lo[1:], "0") == "" && strings.Trim(hi[1:], "9") == "" {
		return digitRange(lo[0], hi[0]) + anyDigits(n-1)
	}
	if lo[0] == hi[0] {
		return lo[:1] + sameLength(lo[1:], hi[1:])
	}
	var alts []string
	from, to := lo[0], hi[0]
	if strings.Trim(lo[1:], "0") != "" {
		alts = append(alts, lo[:1]+sameLength(lo[1:], strings.Repeat("9", n-1)))
		from++
	}
	var last string
	if strings.Trim(hi[1:], "9") != "" {
		last = hi[:1] + sameLength(strings.Repeat("0", n-1), hi[1:])
		to--
	}
	if from <= to {
		alts = append(alts, digitRange(from, to)+anyDigits(n-1))
	}
	if last != "" {
		alts = append(alts, last)
	}
	return "(?:" + strings.Join(alts, "|") + ")"
}

// digitRange is a pattern of the digits from a to b.
func digitRange(a, b byte) string {
	if a == b {
		return string(a)
	}
	return "[" + string(a) + "-" + string(b) + "]"
}

// anyDigits is a pattern of n digits.
func anyDigits(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "[0-9]"
	}
	return "[0-9]{" + strconv.Itoa(n) + "}"
}

// foldASCII changes the case of ASCII letters.
func foldASCII(s string, fold byte) string {
	return strings.Map(func(r rune) rune {
		switch {
		case fold == lowered && 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case fold == uppered && 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		}
		return r
	}, s)
}
