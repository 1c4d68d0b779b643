package regular

import (
	"regexp"
	"testing"
	"unicode/utf8"
)

// fuzzBudget keeps one input of a fuzz target short.
var fuzzBudget = Budget{States: 2_000, Steps: 200_000}

func FuzzMatch(f *testing.F) {
	for _, c := range realCases {
		f.Add(c.a, c.witness)
		f.Add(c.b, c.witness)
	}
	f.Add(`(?m:^|\b)a(?i:k)\B$`, "a\u212a\n")
	f.Add(`[\x{d7ff}-\x{e000}]\z|$^`, "\ue000")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 200 || len(text) > 200 {
			return
		}
		re, err := regexp.Compile(pattern)
		l, ours := Compile(pattern)
		if (err == nil) != (ours == nil) {
			t.Fatalf("pattern %q: regexp says %v, Compile says %v", pattern, err, ours)
		}
		if err != nil {
			return
		}
		want := re.MatchString(text)
		if got := l.Match(text); got != want {
			t.Errorf("pattern %q, string %q: got %v, regexp says %v", pattern, text, got, want)
		}
		for _, s := range Members(l, 4, fuzzBudget) {
			if !re.MatchString(s) {
				t.Errorf("pattern %q: %q is no member", pattern, s)
			}
		}
		if !utf8.ValidString(text) {
			return
		}
		// Once more with the determinised automaton.
		common, err := Compile(`\A` + regexp.QuoteMeta(text) + `\z`)
		if err != nil {
			t.Fatal(err)
		}
		got := Empty(Intersect(common, l), fuzzBudget)
		if got.Verdict != Unknown && (got.Verdict == Refuted) != want {
			t.Errorf("pattern %q, string %q: the common part is empty: %v, regexp says %v", pattern, text, got.Verdict, want)
		}
		if got.Verdict == Refuted && got.Witness != text {
			t.Errorf("pattern %q, string %q: witness %q", pattern, text, got.Witness)
		}
	})
}

func FuzzContained(f *testing.F) {
	for _, c := range realCases {
		f.Add(c.a, c.b, c.witness)
	}
	f.Add(`^(a|b)*a(a|b){12}$`, `^(a|b)*a(a|b){11}$`, "ab")
	f.Add(`\b\B`, `$^`, "")
	f.Fuzz(func(t *testing.T, a, b, text string) {
		if len(a) > 100 || len(b) > 100 || len(text) > 100 || !utf8.ValidString(text) {
			return
		}
		ra, errA := regexp.Compile(a)
		rb, errB := regexp.Compile(b)
		if errA != nil || errB != nil {
			return
		}
		la, err := Compile(a)
		if err != nil {
			t.Fatal(err)
		}
		lb, err := Compile(b)
		if err != nil {
			t.Fatal(err)
		}
		got := Contained(la, lb, fuzzBudget)
		counterexample := ra.MatchString(text) && !rb.MatchString(text)
		switch got.Verdict {
		case Proved:
			if counterexample {
				t.Errorf("%q in %q: proved, but %q is a witness", a, b, text)
			}
			for _, s := range Members(la, 6, fuzzBudget) {
				if ra.MatchString(s) && !rb.MatchString(s) {
					t.Errorf("%q in %q: proved, but %q is a witness", a, b, s)
				}
			}
		case Refuted:
			if !ra.MatchString(got.Witness) || rb.MatchString(got.Witness) || !utf8.ValidString(got.Witness) {
				t.Errorf("%q in %q: %q is no witness", a, b, got.Witness)
			}
			if counterexample && got.Shortest && utf8.RuneCountInString(text) < utf8.RuneCountInString(got.Witness) {
				t.Errorf("%q in %q: witness %q, but %q is shorter", a, b, got.Witness, text)
			}
		case Unknown:
			if got.Reason == "" {
				t.Errorf("%q in %q: unknown without a reason", a, b)
			}
		}
		// A set is contained in another if and only if they have no more in common with its complement.
		if back := Contained(Complement(lb), Complement(la), fuzzBudget); back.Verdict != Unknown && got.Verdict != Unknown && back.Verdict != got.Verdict {
			t.Errorf("%q in %q: %v, with complements %v", a, b, got.Verdict, back.Verdict)
		}
		if whole := Contained(la, Union(la, lb), fuzzBudget); whole.Verdict == Refuted {
			t.Errorf("%q is not in its union with %q: %q", a, b, whole.Witness)
		}
	})
}
