package feature

import (
	"regexp"
	"testing"
)

func TestPatternFindsWhatTheExpressionFinds(t *testing.T) {
	texts := []string{"", "a", "ab", "xab", "#!win", " \n#!win x", "AB", "Kk", "\u212a", "a\nab", "b", "aab", "é", "\xff"}
	for expr, literal := range map[string]string{
		`^ab`: "ab", `ab`: "ab", `^\s*#!win`: "#!win", `(?i)ab`: "", `(?m)^ab`: "ab", `a|b`: "", `(ab)`: "", `^a*b$`: "b", `a{2}b`: "b",
		`k(?i)k`: "k", `^$`: "", `.`: "", `\x{e9}`: "é", `[^a]b`: "b", `^(?:a|b)a`: "a",
	} {
		p := newPattern(regexp.MustCompile(expr))
		if p.literal != literal {
			t.Errorf("%s: literal %q, want %q", expr, p.literal, literal)
		}
		for _, s := range texts {
			if got, want := p.matchesIn(s), p.re.MatchString(s); got != want {
				t.Errorf("%s in %q: %v, want %v", expr, s, got, want)
			}
		}
	}
}

func FuzzPattern(f *testing.F) {
	f.Add(`^\s*#!win`, " #!win")
	f.Add(`a+(?i:B)c|d`, "abc")
	f.Fuzz(func(t *testing.T, expr, s string) {
		if len(expr) > 100 {
			return
		}
		re, err := regexp.Compile(expr)
		if err != nil {
			return
		}
		if p := newPattern(re); p.matchesIn(s) != re.MatchString(s) {
			t.Errorf("%q in %q: %v", expr, s, p.matchesIn(s))
		}
	})
}
