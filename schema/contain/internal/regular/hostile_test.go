package regular

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
)

// hostile are patterns that are made to explode in one way or another.
func hostile() map[string]string {
	var distinct strings.Builder
	for r := range rune(3000) {
		fmt.Fprintf(&distinct, `[^\x{%x}\x{%x}]`, 0x4000+2*r, 0x4001+2*r)
	}
	var words strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&words, "word%dx%d|", i*7919%4000, i)
	}
	return map[string]string{
		"sets that explode":             `(a|b)*a(a|b){30}`,
		"sets that explode, anchored":   `^(a|b)*a(a|b){300}$`,
		"sets of sets":                  `^((a|b)*a(a|b){20}c)*$`,
		"nested stars":                  `^(((((a*)*b)*c)*d)*e)*$`,
		"nested counts":                 `^(((a{1,10}){1,10}){1,10}b?){0,1}$`,
		"the largest count":             `^[ab]{1000}$`,
		"the largest count, unanchored": `[ab]{1000}c`,
		"many optional ones":            `^` + strings.Repeat("a?", 1000) + strings.Repeat("a", 1000) + `$`,
		"overlapping counts":            `^(a{3}|a{5}|a{7}|a{11}|a{13}|a{17}|a{19}|a{23})*$`,
		"a thousand runes":              `^` + strings.Repeat("ab?c*", 250) + `$`,
		"a hundred kilobytes":           strings.Repeat("abcdefghij", 10_000),
		"a hundred kilobytes of stars":  strings.Repeat("a*", 50_000),
		"alternatives":                  `^(` + words.String() + `end)*$`,
		"deep":                          strings.Repeat("(a|", 300) + "b" + strings.Repeat(")*", 300),
		"classes":                       strings.Repeat(`[\pL\d]\PL`, 100),
		"distinct classes":              distinct.String(),
		"boundaries":                    strings.Repeat(`(\b|a\B|$)*`, 200),
		"assertions in a loop":          `(((^|$|\b|\B|(?m:^|$))*)*a?)*$`,
		"a folded literal":              `(?i)` + strings.Repeat("Kelvin", 300),
		"words of ones and zeroes":      `^(.*1.{12})(.*0.{13})(.*1.{14})$`,
	}
}

// overdraft is how far beyond its budget a decision may go: the guesses afterwards, and the
// last step of each search, which is as large as a pattern at most.
func overdraft(b Budget) Spent {
	return Spent{States: b.States + b.States/guessShare + 5_000, Steps: b.Steps + b.Steps/guessShare + 8*maxInsts}
}

func TestHostilePatternsStayWithinTheBudget(t *testing.T) {
	budget := Budget{States: 2_000, Steps: 150_000}
	most := overdraft(budget)
	langs := map[string]*Lang{"everything": All(), "a label": mustCompile(t, label)}
	res := map[string]*regexp.Regexp{"everything": regexp.MustCompile(``), "a label": regexp.MustCompile(label)}
	for name, p := range hostile() {
		langs[name], res[name] = mustCompile(t, p), regexp.MustCompile(p)
	}
	for nameA, a := range langs {
		for nameB, b := range langs {
			got := Contained(a, b, budget)
			if got.Spent.States > most.States || got.Spent.Steps > most.Steps {
				t.Errorf("%s in %s: spent %+v, the budget is %+v", nameA, nameB, got.Spent, budget)
			}
			switch got.Verdict {
			case Refuted:
				if !res[nameA].MatchString(got.Witness) || res[nameB].MatchString(got.Witness) {
					t.Errorf("%s in %s: wrong witness %.100q", nameA, nameB, got.Witness)
				}
			case Unknown:
				if got.Reason == "" || len(got.Reason) > 1000 {
					t.Errorf("%s in %s: reason %q", nameA, nameB, got.Reason)
				}
			case Proved:
				for _, s := range Members(a, 3, budget) {
					if !res[nameA].MatchString(s) || !res[nameB].MatchString(s) {
						t.Errorf("%s in %s: proved, but %.100q", nameA, nameB, s)
					}
				}
			}
		}
		if nameA != "everything" && Contained(a, a, budget).Verdict != Proved {
			t.Errorf("%s is not contained in itself", nameA)
		}
		for _, s := range Members(a, 5, budget) {
			if !res[nameA].MatchString(s) {
				t.Errorf("%s: %.100q is no member", nameA, s)
			}
		}
	}
}

// Explosions that a search one instruction at a time gets through.
func TestExplosionsThatAreDecided(t *testing.T) {
	tests := []struct {
		a, b string
		want Verdict
	}{
		{`^(a|b)*a(a|b){30}$`, `^[ab]*$`, Proved},
		{`^(a|b)*a(a|b){30}$`, `^(a|b)*a(a|b){29}$`, Refuted},
		{`(a|b)*a(a|b){30}`, `(a|b)*a(a|b){29}`, Proved},
		{`^a(a|b){30,}$`, `(a|b)*a(a|b){30}`, Proved},
		{`^b(a|b){30}$`, `^(a|b)*a(a|b){30}$`, Refuted},
	}
	for _, c := range tests {
		got := Contained(mustCompile(t, c.a), mustCompile(t, c.b), Budget{})
		if got.Verdict != c.want {
			t.Errorf("%q in %q: %v, %s", c.a, c.b, got.Verdict, got.Reason)
		}
		if got.Verdict == Refuted && (!regexp.MustCompile(c.a).MatchString(got.Witness) || regexp.MustCompile(c.b).MatchString(got.Witness)) {
			t.Errorf("%q in %q: wrong witness %q", c.a, c.b, got.Witness)
		}
	}
}

func TestASmallBudgetSaysWhatItWasSpentOn(t *testing.T) {
	a, b := mustCompile(t, `^(a{2}|a{3}|a{5}){7}$`), mustCompile(t, `^(a|a{2}|a{4}){30}$`)
	tests := []struct {
		name   string
		budget Budget
		reason string
	}{
		{"states", Budget{States: 10}, "the budget of 10 automaton states is spent on"},
		{"steps", Budget{Steps: 40}, "the budget of 40 steps is spent on"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			got := Contained(b, a, c.budget)
			if got.Verdict != Unknown || !strings.HasPrefix(got.Reason, c.reason) || !strings.Contains(got.Reason, "a{4}") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A budget never turns one verdict into another: with less of it, an answer is the same or Unknown,
// or has a longer witness.
func TestLessBudgetIsNoOtherVerdict(t *testing.T) {
	forSeeds(t, 250, func(t *testing.T, s source) {
		var a, b *Lang
		if s.IntN(2) == 0 {
			a, b = mustCompile(t, s.simple(4)), mustCompile(t, s.simple(4))
		} else {
			a, _ = s.expression(t, 3)
			b, _ = s.expression(t, 3)
		}
		full := Contained(a, b, Budget{})
		for budget := (Budget{States: 1, Steps: 1 << 10}); budget.States < 300; budget.States = 2*budget.States + 1 {
			got := Contained(a, b, budget)
			if got.Verdict != Unknown && got.Verdict != full.Verdict {
				t.Errorf("%v in %v: %v, with %d states %v", a, b, full.Verdict, budget.States, got.Verdict)
			}
			if got.Verdict == Refuted && (!a.Match(got.Witness) || b.Match(got.Witness)) {
				t.Errorf("%v in %v: with %d states, wrong witness %q", a, b, budget.States, got.Witness)
			}
			if got.Verdict == Refuted && got.Shortest && len([]rune(got.Witness)) != len([]rune(full.Witness)) {
				t.Errorf("%v in %v: with %d states, %q claims to be shortest, but %q is", a, b, budget.States, got.Witness, full.Witness)
			}
		}
		for steps := 1; steps < 1<<12; steps = 3*steps + 1 {
			got := Contained(a, b, Budget{Steps: steps})
			if got.Verdict != Unknown && got.Verdict != full.Verdict || got.Verdict == Refuted && (!a.Match(got.Witness) || b.Match(got.Witness)) {
				t.Errorf("%v in %v: %v, with %d steps %v %q", a, b, full.Verdict, steps, got.Verdict, got.Witness)
			}
			for _, m := range Members(a, 5, Budget{Steps: steps}) {
				if !a.Match(m) {
					t.Errorf("%v: with %d steps, %q is no member", a, steps, m)
				}
			}
		}
	})
}

func TestTooLongWitnessIsUnknown(t *testing.T) {
	got := Contained(All(), LengthBetween(0, math.MaxInt64-1), Budget{})
	if got.Verdict != Unknown || !strings.Contains(got.Reason, "runes") {
		t.Errorf("got %+v", got)
	}
	got = Contained(All(), LengthBetween(0, 9), Budget{Runes: 10})
	if got.Verdict != Refuted || len(got.Witness) != 10 {
		t.Errorf("got %+v", got)
	}
	got = Contained(All(), LengthBetween(0, 10), Budget{Runes: 10})
	if got.Verdict != Unknown {
		t.Errorf("got %+v", got)
	}
	got = Contained(oneOf([]string{"hello"}), None(), Budget{Runes: 4})
	if got.Verdict != Unknown {
		t.Errorf("got %+v", got)
	}
}

func TestPatternsBeyondTheLimits(t *testing.T) {
	for name, p := range map[string]string{
		"text":         strings.Repeat("a", maxPattern+1),
		"instructions": strings.Repeat("(?:ab){999}", 1000),
		"counts":       strings.Repeat("((a{10}){10}){10}", 500),
		"classes":      strings.Repeat(`\pL`, 2_000),
	} {
		if _, err := Compile(p); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: got error %v, want ErrTooLarge", name, err)
		}
	}
}

func TestLargeExpressionsEnd(t *testing.T) {
	budget := Budget{States: 4_000, Steps: 400_000}
	var patterns, lists, lengths []*Lang
	for i := range 3_000 {
		patterns = append(patterns, mustCompile(t, fmt.Sprintf(`^[a-z]{%d}[^%c]`, i%20, 'a'+i%26)))
		lists = append(lists, oneOf([]string{fmt.Sprint(i), fmt.Sprint(i + 1), "x"}))
		lengths = append(lengths, LengthBetween(int64(i), int64(3*i)))
	}
	deep := All()
	for i := range 5_000 {
		deep = Complement(Intersect(deep, patterns[i%7], Complement(lists[i%7])))
	}
	twice := oneOf([]string{"a"})
	for range 80 { // 2^80 nodes if written out
		twice = Union(Intersect(twice, patterns[0]), Complement(twice))
	}
	sets := map[string]*Lang{
		"patterns, all":    Intersect(patterns...),
		"patterns, any":    Union(patterns...),
		"lists, all":       Intersect(lists...),
		"lists, any":       Union(lists...),
		"lists, excluded":  Complement(Union(lists...)),
		"lengths, any":     Union(lengths...),
		"lengths, all":     Intersect(lengths...),
		"pairs of all":     Intersect(Union(patterns[:50]...), Union(lists[:50]...), Union(lengths[:50]...), Complement(Union(patterns[50:90]...))),
		"deep":             deep,
		"twice":            twice,
		"many conjoined":   Intersect(Union(patterns[0], lists[0]), Union(patterns[1], lists[1]), Union(patterns[2], lists[2]), Union(patterns[3], lists[3]), Union(patterns[4], lists[4]), Union(patterns[5], lists[5]), Union(patterns[6], lists[6])),
		"lengths, negated": Intersect(Complement(Union(lengths...)), Union(patterns[:9]...)),
	}
	most := overdraft(budget)
	most.States += 5 * len(lists) // the last step of a search is one in each of the patterns
	for name, l := range sets {
		got := Empty(l, budget)
		if got.Spent.States > most.States || got.Spent.Steps > most.Steps {
			t.Errorf("%s: spent %+v", name, got.Spent)
		}
		if got.Verdict == Refuted && !l.Match(got.Witness) {
			t.Errorf("%s: wrong member %q", name, got.Witness)
		}
		if name == "twice" && got.Verdict != Unknown {
			t.Errorf("%s: %+v", name, got)
		}
		for _, s := range Members(l, 3, budget) {
			if !l.Match(s) {
				t.Errorf("%s: %q is no member", name, s)
			}
		}
	}
}
