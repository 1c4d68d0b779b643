package regular

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestMatchAgreesWithRegexp(t *testing.T) {
	patterns := []string{
		``, `a`, `^a`, `a$`, `^a$`, `^$`, `$^`, `^^$$`, `a^b`, `a$b`, `(?m)a$\n^b`, `(?m)^$`, `(?m)^a$`, `\Aa\z`, `(?m)\Aa\z`,
		`\b`, `\B`, `\ba\b`, `\Ba\B`, `^\b`, `\b$`, `^\B$`, `\b\B`, `a\b-\bb`, `(?:\b|a)+$`, `(\b|^)*a`, `(?:^|-)a(?:$|-)`,
		`(?i)k`, `(?i)ſ`, `(?i)[a-k]+$`, `(?i)é`, `(?i:a)b`, `^(?i)straße$`,
		`.`, `^.$`, `^(?s:.)$`, `^[^a]$`, `[^\x00-\x{10FFFF}]`, `a[^\x00-\x{10FFFF}]?b`, `[\x{d800}-\x{dfff}]`, `^[\x{d7ff}-\x{e000}]$`,
		`a{0}`, `^a{3}$`, `^a{2,}$`, `^a{1,2}?$`, `^(?:a|ab)(?:c|bcd)$`, `^(?:a*)*$`, `^(?:a|b)*?b$`, `(?U)^a+$`, `\Qa.b\E`,
		`^\pL+$`, `^\PL+$`, `^[[:word:]]+$`, `^\d+\.\d+$`, `x*`, `(?:)`, `|`, `a||b`, `^(?:|a)+$`, `(a|$)b?`, `(?:$)+a?`,
		`(?m:$)\n`, `\n(?m:^)a`, `(?m:^)(?m:$)`, `(?m:$)(?m:^)\n`, `a(?m:$)\b`, `\z\B\A`, `(?m:^)\b\w`,
		`^a{12}$`, `^[a-b]{3,12}$`, `^(.){0,20}$`, `^((?s).){12,}$`, `(?i)^(k){2,13}$`, `(?m)^[ab\n]{1,20}$`, `^(ab){1,20}$`, `^(ab){12}$`, `^[a\n]{2,20}?\z`,
		`-[ab]{12}$`, `(?m)^[ab]{1,12}$`, `\b[ab]{2,12}$`, `^[ab]{2,12}-`, `^[ab]{2,12}\b`, `(?m:^)[ab]{1,12}$`, `^[ab]{1,12}(?m:$)`, `^-?[ab]{12}$`, `[ab]{12,}`,
	}
	texts := append(allTexts("ab-\né", 3), "k", "K", "\u212a", "s", "S", "ſ", "Straße", "STRASSE", "STRAßE", "a.b", "1.5", "中", "\U0001f600",
		"\ud7ff", "\ue000", "\ufffd", "aaa", "aaaa", strings.Repeat("a", 12), strings.Repeat("b", 13), "-"+strings.Repeat("a", 12), "a\n"+strings.Repeat("b", 12), strings.Repeat("ab", 7)+"-", strings.Repeat("é", 12), strings.Repeat("\n", 12), "kK\u212a", "abab", strings.Repeat("ab", 12), "abcd", "x\ny\nz", "a\n", "\na", "\n\n", "_a_", "a b", "\xff", "a\xffb")
	for _, p := range patterns {
		re, l := regexp.MustCompile(p), mustCompile(t, p)
		for _, s := range texts {
			if got, want := l.Match(s), re.MatchString(s); got != want {
				t.Errorf("pattern %q, string %q: got %v, regexp says %v", p, s, got, want)
			}
		}
	}
}

func TestMatchAgreesWithRegexpOnRandomPatterns(t *testing.T) {
	forSeeds(t, 8_000, func(t *testing.T, s source) {
		p := s.pattern(2)
		re, l := regexp.MustCompile(p), mustCompile(t, p)
		for range 12 {
			text := s.text(7)
			if got, want := l.Match(text), re.MatchString(text); got != want {
				t.Errorf("pattern %q, string %q: got %v, regexp says %v", p, text, got, want)
			}
		}
	})
}

// With more than 64 sets of runes, and with so many that intervals are not merged.
func TestManyClassesAgreeWithRegexp(t *testing.T) {
	for _, n := range []int{3, 70, 200, 2_500} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `[\x{%x}\x{%x}]%c|`, 0x4000+3*i, 0x20000+3*i, 'a'+i%26)
		}
		p := `^(?:` + b.String() + `end)$`
		re, l := regexp.MustCompile(p), mustCompile(t, p)
		for i := 0; i < n; i += 1 + n/50 {
			for j := range 26 {
				for _, r := range []rune{0x4000, 0x4001, 0x20000} {
					s := string([]rune{r + rune(3*i), 'a' + rune(j)})
					if got, want := l.Match(s), re.MatchString(s); got != want {
						t.Fatalf("%d classes, string %q: got %v, regexp says %v", n, s, got, want)
					}
				}
			}
		}
	}
}
