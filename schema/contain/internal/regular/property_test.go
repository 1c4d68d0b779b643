package regular

import (
	"regexp"
	"testing"
	"unicode/utf8"
)

// check holds an answer to Contained for patterns a and b against regexp: a witness has to be
// one, a proof has to survive the given strings and members of a, and no string of fewer
// runes than the witness may be one. It reports the verdict.
func check(t *testing.T, a, b string, texts []string) Verdict {
	t.Helper()
	la, lb := mustCompile(t, a), mustCompile(t, b)
	ra, rb := regexp.MustCompile(a), regexp.MustCompile(b)
	got := Contained(la, lb, Budget{})
	switch got.Verdict {
	case Refuted:
		if !ra.MatchString(got.Witness) || rb.MatchString(got.Witness) {
			t.Errorf("%q in %q: %q is no witness", a, b, got.Witness)
		}
		if !utf8.ValidString(got.Witness) {
			t.Errorf("%q in %q: the witness %q is not valid UTF-8", a, b, got.Witness)
		}
	case Proved:
		texts = append(texts, Members(la, 12, Budget{})...)
	case Unknown:
		if got.Reason == "" {
			t.Errorf("%q in %q: unknown without a reason", a, b)
		}
		return Unknown
	}
	best := newCandidate(got.Witness)
	for _, s := range texts {
		if !ra.MatchString(s) || rb.MatchString(s) {
			continue
		}
		c := newCandidate(s)
		switch {
		case got.Verdict == Proved:
			t.Errorf("%q in %q: proved, but %q is a witness", a, b, s)
		case got.Shortest && c.length < best.length:
			t.Errorf("%q in %q: witness %q, but %q is shorter", a, b, got.Witness, s)
		case got.Shortest && c.length == best.length && c.cost < best.cost && got.Spent.States < DefaultStates/10:
			t.Errorf("%q in %q: witness %q, but %q is more readable", a, b, got.Witness, s)
		}
	}
	return got.Verdict
}

func TestContainedSurvivesRandomStrings(t *testing.T) {
	verdicts := map[Verdict]int{}
	forSeeds(t, 5_000, func(t *testing.T, s source) {
		a, b := s.pattern(2), s.pattern(1)
		switch s.IntN(4) {
		case 0: // often contained
			b = "(?:" + a + ")|" + b
		case 1: // almost the same
			b = a + s.pick("", "?", "*", "|a", "$", `\b`)
		}
		if _, err := regexp.Compile(b); err != nil {
			return
		}
		var texts []string
		for range 30 {
			texts = append(texts, s.text(5))
		}
		verdicts[check(t, a, b, texts)]++
	})
	if verdicts[Unknown] > 0 || verdicts[Proved] == 0 || verdicts[Refuted] == 0 {
		t.Errorf("verdicts %v: want both kinds, and none unknown", verdicts)
	}
}

// Over two letters, and with all strings up to seven runes, witnesses are checked for
// being shortest, and proofs for holding, without luck.
func TestContainedAgreesWithBruteForce(t *testing.T) {
	texts := allTexts("ab", 7)
	verdicts := map[Verdict]int{}
	forSeeds(t, 2_000, func(t *testing.T, s source) {
		verdicts[check(t, s.simple(3), s.simple(4), texts)]++
	})
	if verdicts[Unknown] > 0 || verdicts[Proved] < verdicts[Refuted]/50 || verdicts[Refuted] == 0 {
		t.Errorf("verdicts %v: want both kinds, and none unknown", verdicts)
	}
}

func TestAssertionsAgreeWithBruteForce(t *testing.T) {
	texts := allTexts("a-\n", 5)
	forSeeds(t, 2_000, func(t *testing.T, s source) {
		check(t, s.assertive(), s.assertive(), texts)
	})
}

// expression is a random set, and the same as a function on strings that uses regexp only.
func (s source) expression(t *testing.T, depth int) (*Lang, func(string) bool) {
	if depth == 0 || s.IntN(5) == 0 {
		switch s.IntN(4) {
		case 0:
			least, most := int64(s.IntN(4)), int64(s.IntN(7)-1)
			return LengthBetween(least, most), func(text string) bool {
				n := int64(utf8.RuneCountInString(text))
				return n >= least && (most < 0 || n <= most)
			}
		case 1:
			list := []string{s.narrow(4), s.narrow(4), s.narrow(4)}
			return oneOf(list), func(text string) bool { return text == list[0] || text == list[1] || text == list[2] }
		default:
			p := s.pick(s.simple(2), s.simpleAny(2), s.simple(3))
			return mustCompile(t, p), regexp.MustCompile(p).MatchString
		}
	}
	a, inA := s.expression(t, depth-1)
	switch s.IntN(5) {
	case 0:
		return Complement(a), func(text string) bool { return !inA(text) }
	case 1, 2:
		b, inB := s.expression(t, depth-1)
		return Union(a, b), func(text string) bool { return inA(text) || inB(text) }
	default:
		b, inB := s.expression(t, depth-1)
		return Intersect(a, b), func(text string) bool { return inA(text) && inB(text) }
	}
}

func TestExpressionsAgreeWithBruteForce(t *testing.T) {
	texts := allTexts("ab-", 6)
	forSeeds(t, 1_500, func(t *testing.T, s source) {
		l, in := s.expression(t, 4)
		got := Empty(l, Budget{})
		if got.Verdict == Unknown {
			t.Fatalf("%v: %s", l, got.Reason)
		}
		if got.Verdict == Refuted && (!in(got.Witness) || !got.Shortest) {
			t.Errorf("%v: %q is no member, or not known as a shortest", l, got.Witness)
		}
		for _, text := range texts {
			if l.Match(text) != in(text) {
				t.Errorf("%v: Match(%q) is %v", l, text, !in(text))
			}
			if !in(text) {
				continue
			}
			if got.Verdict == Proved {
				t.Errorf("%v: empty, but contains %q", l, text)
			} else if newCandidate(text).compare(newCandidate(got.Witness)) < 0 && utf8.RuneCountInString(text) < utf8.RuneCountInString(got.Witness) {
				t.Errorf("%v: the shortest is %q, but it contains %q", l, got.Witness, text)
			}
			break // texts are sorted by length
		}
		for _, text := range Members(l, 10, Budget{}) {
			if !in(text) {
				t.Errorf("%v: %q is no member", l, text)
			}
		}
	})
}

// However little a question is split, the answer is the same.
func TestUnsplitExpressionsAgree(t *testing.T) {
	forSeeds(t, 2_000, func(t *testing.T, s source) {
		l, in := s.expression(t, 5)
		want := Empty(l, Budget{})
		for _, parts := range []int{1, 2, 5} {
			budget := Budget{}.orDefault()
			d := &decision{query: newQuery(l, budget), budget: budget}
			d.conjunctions = parts
			got := d.run()
			if got.Verdict != want.Verdict || utf8.RuneCountInString(got.Witness) != utf8.RuneCountInString(want.Witness) {
				t.Errorf("%v: %v %q, in at most %d parts %v %q (%s)", l, want.Verdict, want.Witness, parts, got.Verdict, got.Witness, got.Reason)
			}
			if got.Verdict == Refuted && !in(got.Witness) {
				t.Errorf("%v: in at most %d parts, wrong member %q", l, parts, got.Witness)
			}
		}
	})
}

func TestAlgebra(t *testing.T) {
	forSeeds(t, 1_500, func(t *testing.T, s source) {
		a, _ := s.expression(t, 2)
		b, _ := s.expression(t, 2)
		c, _ := s.expression(t, 2)
		same := func(law string, x, y *Lang) {
			if got := Equal(x, y, Budget{}); got.Verdict != Proved {
				t.Errorf("%s: %v %q %s\na = %v\nb = %v\nc = %v", law, got.Verdict, got.Witness, got.Reason, a, b, c)
			}
		}
		same("De Morgan, union", Complement(Union(a, b)), Intersect(Complement(a), Complement(b)))
		same("De Morgan, intersection", Complement(Intersect(a, b)), Union(Complement(a), Complement(b)))
		same("distribution", Intersect(a, Union(b, c)), Union(Intersect(a, b), Intersect(a, c)))
		same("absorption", Union(a, Intersect(a, b)), a)
		same("contradiction", Intersect(a, Complement(a)), None())
		same("excluded middle", Union(a, Complement(a)), All())
		ab, bc, ac := Contained(a, b, Budget{}), Contained(b, c, Budget{}), Contained(a, c, Budget{})
		if ab.Verdict == Proved && bc.Verdict == Proved && ac.Verdict != Proved {
			t.Errorf("not transitive: %v\n%v\n%v", a, b, c)
		}
		if ab.Verdict == Refuted && Contained(oneOf([]string{ab.Witness}), b, Budget{}).Verdict != Refuted {
			t.Errorf("the witness %q is in %v", ab.Witness, b)
		}
		for _, l := range []*Lang{Intersect(a, b), Intersect(a, Complement(c))} {
			if got := Contained(l, a, Budget{}); got.Verdict != Proved {
				t.Errorf("a part is not contained in the whole: %v in %v: %q", l, a, got.Witness)
			}
		}
	})
}

// Whatever way the search goes, the answer is the same.
func TestSearchesAgree(t *testing.T) {
	forSeeds(t, 3_000, func(t *testing.T, s source) {
		var l *Lang
		switch s.IntN(4) {
		case 0:
			l = Intersect(mustCompile(t, s.simple(3)), Complement(mustCompile(t, s.simple(4))))
		case 1:
			l = Intersect(mustCompile(t, s.assertive()), Complement(mustCompile(t, s.assertive())))
		case 2:
			l = Intersect(mustCompile(t, s.pattern(2)), Complement(mustCompile(t, s.pattern(2))))
		default:
			a, b, c := mustCompile(t, s.simple(3)), mustCompile(t, s.simple(3)), mustCompile(t, s.simple(4))
			l = Intersect(Union(Intersect(a, b), Intersect(Complement(a), c)), Union(Complement(b), Complement(c)))
		}
		q := newQuery(Intersect(l, LengthBetween(int64(s.IntN(4)), int64(3+s.IntN(10)))), Budget{}.orDefault())
		q.conjunctions = 1 + s.IntN(4)
		tasks, ok := q.tasks()
		if !ok {
			t.Fatal("no tasks")
		}
		for _, task := range tasks {
			var lengths [2]int64
			for i, nondet := range []bool{false, true} {
				p := newProduct(q, task.conj, false, q.m.share(2))
				p.nondet = nondet
				run := newSearch(p)
				f, ok := run.run(task.first, task.last)
				if p.m.over {
					return
				}
				lengths[i] = -1
				if ok {
					lengths[i] = f.length
					text := run.text(f)
					if n := int64(utf8.RuneCountInString(text)); n != f.length || !q.lang.Match(text) {
						t.Errorf("%v, nondet %v: wrong member %q", q.lang, nondet, text)
					}
				}
			}
			if lengths[0] != lengths[1] {
				t.Errorf("%v: lengths %d", q.lang, lengths)
			}
		}
	})
}

// What a machine says about its states holds for the strings that they accept.
func TestStatesKeepTheirPromises(t *testing.T) {
	texts := allTexts("a-\n", 4)
	forSeeds(t, 400, func(t *testing.T, s source) {
		pattern := s.assertive()
		r := newMachine(mustCompile(t, pattern).prog, &meter{limit: Spent{States: maxInt, Steps: maxInt}})
		run := func(state int32, text string) int32 {
			for _, c := range text {
				state = r.step(state, r.p.alpha.of(c))
			}
			return state
		}
		for range 40 {
			run(r.start(), s.text(6))
			run(r.start(), texts[s.IntN(len(texts))])
		}
		states := make([]int32, 0, 2*r.sets.len())
		for id := range int32(min(r.sets.len(), 12)) {
			states = append(states, id)
			states = r.singles(id, states)
		}
		accepted := map[int32]map[string]bool{}
		for _, id := range states {
			accepted[id] = map[string]bool{}
			for _, text := range texts {
				accepted[id][text] = r.accepts(run(id, text))
			}
		}
		for _, a := range states {
			united := map[string]bool{}
			for _, part := range r.singles(a, nil) {
				for _, text := range texts {
					united[text] = united[text] || r.accepts(run(part, text))
				}
			}
			for _, text := range texts {
				if united[text] != accepted[a][text] {
					t.Errorf("%q: the parts of state %d and the state disagree on %q", pattern, a, text)
				}
			}
			for _, b := range states {
				if !r.below(a, b) {
					continue
				}
				if a != b && r.weight(a) >= r.weight(b) {
					t.Errorf("%q: state %d is below %d, and no lighter", pattern, a, b)
				}
				for _, text := range texts {
					if accepted[a][text] && !accepted[b][text] {
						t.Errorf("%q: state %d is below %d, but %q", pattern, a, b, text)
					}
				}
			}
		}
	})
}

func TestAnswersAreTheSameOnEveryRun(t *testing.T) {
	forSeeds(t, 300, func(t *testing.T, s source) {
		a, b := s.pattern(3), s.pattern(3)
		first := Contained(mustCompile(t, a), mustCompile(t, b), Budget{})
		members := Members(mustCompile(t, a), 10, Budget{})
		for range 3 {
			if again := Contained(mustCompile(t, a), mustCompile(t, b), Budget{}); again != first {
				t.Errorf("%q in %q: %+v, then %+v", a, b, first, again)
			}
			again := Members(mustCompile(t, a), 10, Budget{})
			if len(again) != len(members) {
				t.Fatalf("%q: %q, then %q", a, members, again)
			}
			for i := range again {
				if again[i] != members[i] {
					t.Errorf("%q: %q, then %q", a, members, again)
				}
			}
		}
	})
}

// The determinised automaton takes other ways than Match does; a string is in it if and only if
// it is not in what is left of the complement.
func TestDeterministicAutomatonAgreesWithRegexp(t *testing.T) {
	forSeeds(t, 2_000, func(t *testing.T, s source) {
		p := s.pattern(2)
		re, l := regexp.MustCompile(p), mustCompile(t, p)
		for range 6 {
			text := s.text(6)
			in := Contained(oneOf([]string{text}), l, Budget{})
			out := Empty(Intersect(mustCompile(t, `\A`+regexp.QuoteMeta(text)+`\z`), l), Budget{})
			want := re.MatchString(text)
			if (in.Verdict == Proved) != want || (out.Verdict == Refuted) != want {
				t.Errorf("pattern %q, string %q: contained %v, common part empty %v, regexp says %v", p, text, in.Verdict, out.Verdict, want)
			}
		}
	})
}
