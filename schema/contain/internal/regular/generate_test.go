package regular

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"sluice.dev/tools/draws"
)

// source draws patterns and strings for the property tests. The seed is part of a
// test's name, so that a failure can be repeated.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 7))} }

func (s source) pick(list ...string) string { return list[s.IntN(len(list))] }

// letters are those that patterns and strings are made of: word and other characters, a
// newline, and runes whose case folding goes beyond ASCII or has odd variants.
var letters = []string{"a", "b", "c", "A", "k", "s", "0", "_", "-", ".", " ", "\n", "é", "É", "\u212a", "ſ", "中", "\U0001f600"}

// pattern returns a valid pattern of at most the given depth.
func (s source) pattern(depth int) string {
	for {
		p := s.alternation(depth)
		if s.IntN(3) == 0 {
			p = "^" + p
		}
		if s.IntN(3) == 0 {
			p += "$"
		}
		if s.IntN(4) == 0 {
			p = "^(?:" + p + ")$"
		}
		if _, err := regexp.Compile(p); err == nil {
			return p
		}
	}
}

func (s source) alternation(depth int) string {
	parts := []string{s.sequence(depth)}
	for s.IntN(4) == 0 {
		parts = append(parts, s.sequence(depth))
	}
	return strings.Join(parts, "|")
}

func (s source) sequence(depth int) string {
	var b strings.Builder
	for range s.IntN(4) {
		b.WriteString(s.atom(depth) + s.repeat())
	}
	return b.String()
}

func (s source) repeat() string {
	switch s.IntN(10) {
	case 0:
		return s.pick("*", "*?")
	case 1:
		return s.pick("+", "+?")
	case 2:
		return s.pick("?", "??")
	case 3:
		low := s.IntN(3)
		return s.pick(fmt.Sprintf("{%d}", low), fmt.Sprintf("{%d,}", low), fmt.Sprintf("{%d,%d}", low, low+s.IntN(3)))
	default:
		return ""
	}
}

func (s source) atom(depth int) string {
	switch s.IntN(12) {
	case 0, 1, 2, 3:
		return regexp.QuoteMeta(letters[s.IntN(len(letters))])
	case 4:
		return s.pick("a", "b")
	case 5:
		return s.pick(`[ab]`, `[^a]`, `[a-c0-9]`, `[^\n]`, `[[:upper:]]`, `[^\pL]`, `[é-中]`, `[\x{d7ff}-\x{e000}]`)
	case 6:
		return s.pick(`\w`, `\W`, `\d`, `\s`, `\pL`, `\p{Greek}`, `.`, `(?s:.)`)
	case 7:
		return s.pick(`^`, `$`, `\A`, `\z`, `(?m:^)`, `(?m:$)`, `\b`, `\B`)
	case 8:
		return "(?i:" + s.sequence(0) + ")"
	default:
		if depth <= 0 {
			return regexp.QuoteMeta(letters[s.IntN(len(letters))])
		}
		return s.pick("(", "(?:", "(?m:", "(?s:", "(?U:") + s.alternation(depth-1) + ")"
	}
}

// simple returns a pattern over a and b, anchored on both sides: containments
// between these are frequent.
func (s source) simple(depth int) string { return "^(?:" + s.simpleAny(depth) + ")$" }

func (s source) simpleAny(depth int) string {
	if depth <= 0 {
		return s.pick("a", "b", "[ab]", "a?", "b*", "")
	}
	switch s.IntN(4) {
	case 0:
		return "(?:" + s.simpleAny(depth-1) + "|" + s.simpleAny(depth-1) + ")"
	case 1:
		return "(?:" + s.simpleAny(depth-1) + ")" + s.pick("*", "+", "?", "{2}", "{1,3}")
	default:
		return s.simpleAny(depth-1) + s.simpleAny(depth-1)
	}
}

// assertive returns a pattern over a, - and newline that is full of assertions.
func (s source) assertive() string {
	piece := func() string {
		p := ""
		for range 1 + s.IntN(4) {
			p += s.pick("a", "a", "-", `\n`, "(?s:.)", ".", "[a-]", `\b`, `\B`, "^", "$", "(?m:^)", "(?m:$)") + s.pick("", "", "", "?", "*")
		}
		return p
	}
	return s.pick("", "^", `\b`) + "(?:" + piece() + "|" + piece() + ")" + s.pick("", "*", "+") + s.pick("", "$", "(?m:$)")
}

// forSeeds runs a property with many seeds.
func forSeeds(t *testing.T, n int, property func(t *testing.T, s source)) {
	t.Helper()
	for seed := range draws.Seeds(n) {
		property(t, newSource(seed))
		if t.Failed() {
			t.Fatalf("failed with seed %d", seed)
		}
	}
}

// allTexts returns all strings of at most the given number of runes over the runes of an
// alphabet, shorter ones first.
func allTexts(alphabet string, most int) []string {
	out, last := []string{""}, []string{""}
	for range most {
		var next []string
		for _, s := range last {
			for _, r := range alphabet {
				next = append(next, s+string(r))
			}
		}
		out, last = append(out, next...), next
	}
	return out
}
