package logic

// Is there a value that makes all of these formulas true? The solver adds them to a state, splits disjunctions one by one, and looks for a
// value of each kind that is left. For example, of "is an integer over 5, and is 3 or 8" it drops 3 and finds 8.
//
// A search returns models and whether there certainly are none. No models and no proof means that it gave up, and s.reason says why. If there
// certainly are none, s.why has the choices that this rests on (see state.go).

import (
	"cmp"
	"math"
	"slices"
	"unicode/utf8"
)

// Strings finds strings for a [Solver].
type Strings interface {
	Checker
	// Members returns up to n strings within the length in which every expression of match finds a match and none of
	// avoid does, readable ones first. none is true only if it is proven that there is no such string.
	// The work is charged to w; when it is spent, nothing is found and nothing proven.
	Members(w *Work, match, avoid []string, length Length, n int) (found []string, none bool)
	// Samples returns a few strings of the format, and false if every string has it.
	Samples(format string) []string
}

// Solver searches models. It is not safe for concurrent use. It remembers results about parts, so that a second search for the same
// part costs less.
type Solver struct {
	Strings Strings
	// Budget bounds the work of one Solve.
	Budget int64
	// Total, if not nil, is charged for all work, and bounds it as well.
	Total *Work
	// Memory, if not nil, is shared with other solvers of the same Strings.
	Memory *Memory

	work   Work // of one Solve
	table  *Table
	reason string
	why    deps // the choices of the last contradiction
	level  int  // of the next choice
}

// Memory has the results of solvers about conjunctions. The zero value is ready for use.
type Memory struct {
	Table Table
	parts map[string]part
}

// Full reports whether there is not much room for more.
func (m *Memory) Full() bool { return len(m.parts) >= manyParts/2 }

// part is the result about a conjunction.
type part struct {
	models []any
	none   bool
	reason string
}

// manyParts bounds the parts that are remembered.
const manyParts = 1 << 14

// Result is the answer of a search.
type Result struct {
	// Models are values that make the formula true, apart from opaque parts, simple ones first.
	Models []any
	// None is true if it is proven that there is no model. It is false if models were found, or if the search gave up.
	None bool
	// Reason says why the search gave up, if Models is empty and None is false.
	Reason string
}

// Spent is the reason of a search that its budget ended.
const Spent = "the search budget is spent; a larger one (--budget) may decide this"

// Solve searches up to want models of the conjunction of fs.
func (s *Solver) Solve(want int, fs ...Formula) Result {
	s.prepareMemory()
	enums := s.work.enums
	s.work, s.reason, s.level = Work{limit: min(s.Budget, s.Total.Left()), enums: enums}, "", 0
	facts := make([]fact, len(fs))
	for i, f := range fs {
		facts[i] = fact{f: f}
	}
	models, none := s.solveFacts(facts, want, 0)
	var kept []any
	for _, m := range models {
		if roomLeft(m, maxLength) < 0 {
			s.recordReason("the values found are larger than a request may be")
			continue
		}
		if Eval(And(fs), m, s.Strings) != No {
			kept = append(kept, deepCopyOf(m)) // parts that are remembered are in several models
		}
	}
	r := Result{Models: kept, None: none && len(models) == 0 && !s.workSpent() && !s.Total.Spent()}
	if len(kept) == 0 && !r.None {
		r.Reason = cmp.Or(s.reason, "the search found no value, and no proof that there is none")
	}
	s.Total.Charge(s.work.done)
	return r
}

// roomLeft returns how many of so many bytes the JSON of v leaves at most; less than 0 if v certainly is larger.
func roomLeft(v any, bytes int) int {
	switch v := v.(type) {
	case string:
		return bytes - len(v)
	case map[string]any:
		for k, x := range v {
			if bytes = roomLeft(x, bytes-len(k)-1); bytes < 0 {
				return bytes
			}
		}
	case []any:
		for _, x := range v {
			if bytes = roomLeft(x, bytes-1); bytes < 0 {
				return bytes
			}
		}
	}
	return bytes
}

// deepCopyOf returns a value that shares nothing with v.
func deepCopyOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = deepCopyOf(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = deepCopyOf(x)
		}
		return out
	}
	return v
}

func (s *Solver) prepareMemory() {
	if s.Memory == nil {
		s.Memory = &Memory{}
	}
	s.table = &s.Memory.Table
}

func (s *Solver) recordReason(reason string) {
	if s.reason == "" {
		s.reason = reason
	}
}

// chargeStep charges n units, and reports whether there are any left.
func (s *Solver) chargeStep(n int64) bool {
	if s.work.Charge(n) {
		return true
	}
	s.recordReason(Spent)
	return false
}

// workSpent reports whether the work is done.
func (s *Solver) workSpent() bool { return s.work.Spent() }

func (s *Solver) evalFormula(f Formula, v any) Truth {
	return evaluator{Checker: s.Strings, work: &s.work}.evalFormula(f, v)
}

const maxDepth = 200

// scanned is the number of parts that a unit of work pays to search.
const scanned = 8

// solveFacts returns up to want models. If it returns none, it reports whether that is a proof, and s.why has the choices that the proof
// rests on.
func (s *Solver) solveFacts(fs []fact, want, depth int) ([]any, bool) {
	if depth > maxDepth {
		s.recordReason("values nest too deeply")
		return nil, false
	}
	all := deps(0)
	for _, f := range fs {
		all |= f.why
	}
	key := s.keyOf(fs, want, depth)
	if p, ok := s.Memory.parts[key]; ok {
		if p.reason != "" {
			s.recordReason(p.reason)
		}
		s.why = all
		return p.models, p.none
	}
	outer := s.reason
	s.reason = ""
	models, none := s.solveNew(fs, want, depth)
	if !s.workSpent() && len(s.Memory.parts) < manyParts {
		if s.Memory.parts == nil {
			s.Memory.parts = map[string]part{}
		}
		s.Memory.parts[key] = part{models, none, s.reason}
	}
	s.reason = cmp.Or(outer, s.reason)
	return models, none
}

// keyOf names a conjunction with all that its solution depends on.
func (s *Solver) keyOf(fs []fact, want, depth int) string {
	b := appendNumber(appendNumber(nil, int64(want)), int64(max(depth-maxDepth/2, 0))) // no value of ours nests so deeply but by its depth
	for _, f := range fs {
		b = appendNumber(b, int64(s.table.ID(f.f, &s.work)))
	}
	return string(b)
}

func (s *Solver) solveNew(fs []fact, want, depth int) ([]any, bool) {
	st := newState()
	for _, f := range fs {
		if !s.addFormula(st, f.f, f.why) {
			return nil, true
		}
	}
	return s.searchState(st, want, depth)
}

func (s *Solver) searchState(st *state, want, depth int) ([]any, bool) {
	if !s.simplifyState(st) {
		return nil, true
	}
	if s.workSpent() {
		return nil, false
	}
	if len(st.ors) > 0 {
		return s.splitDisjunction(st, want, depth)
	}
	var out []any
	complete, why := true, st.why
	kinds := st.kindsInOrder()
	for i, k := range kinds {
		share := max(1, (want-len(out))/(len(kinds)-i))
		if s.why = st.why | st.said[kindIndex(k)]; k == Object {
			s.why = st.sum // includes facts about single fields
		}
		found, none := s.solveKind(st, k, share, depth)
		out = append(out, found...)
		complete, why = complete && none, why|s.why
		if len(out) >= want {
			break
		}
	}
	s.why = why
	return out, complete
}

// splitDisjunction tries each disjunct of the shortest disjunction. If one leads to a contradiction that does not depend on it, the others lead to
// the same contradiction.
func (s *Solver) splitDisjunction(st *state, want, depth int) ([]any, bool) {
	best := 0
	for i, d := range st.ors {
		if len(d.f) < len(st.ors[best].f) {
			best = i
		}
	}
	d := st.ors[best]
	rest := slices.Delete(slices.Clone(st.ors), best, best+1)
	level := s.level
	s.level++
	defer func() { s.level = level }()
	this, why := choiceAt(level), d.why
	var out []any
	complete := true
	for i, f := range d.f {
		c := st.cloneState()
		c.ors = slices.Clip(rest)
		none := true
		var found []any
		if s.addFormula(c, f, this|d.why) {
			share := max(1, (want-len(out))/(len(d.f)-i))
			found, none = s.searchState(c, share, depth)
		}
		switch {
		case len(found) > 0 || !none:
			out = append(out, found...)
			complete = complete && none
		case s.why&this == 0:
			return nil, true
		default:
			why |= s.why
		}
		if len(out) >= want {
			break
		}
		if s.workSpent() {
			return out, false
		}
	}
	if level < lastChoice {
		why &^= this
	}
	s.why = why
	return out, complete
}

// kindsInOrder lists the kinds that are left, those that make readable witnesses first.
func (st *state) kindsInOrder() []Kind {
	var out []Kind
	for _, k := range []Kind{String, Int, Bool, Object, Array, Float, Null} {
		if st.kinds&k != 0 {
			out = append(out, k)
		}
	}
	return out
}

func (s *Solver) solveKind(st *state, k Kind, want, depth int) ([]any, bool) {
	if !s.chargeStep(1) {
		return nil, false
	}
	if i := slices.IndexFunc(st.enums, func(e Enum) bool { return !e.Neg }); i >= 0 {
		return s.solveEnum(st, k, st.enums[i].Values, want)
	}
	switch k {
	case Null:
		return s.keepUnrefused(st, []any{nil}, want), true
	case Bool:
		return s.keepUnrefused(st, []any{true, false}, want), true
	case Int:
		return s.solveInt(st, want)
	case Float:
		return s.solveFloat(st, want)
	case String:
		return s.solveString(st, want)
	case Array:
		return s.solveArray(st, want, depth)
	case Object:
		return s.solveObject(st, want, depth)
	case AnyKind, Number, NonNull: // several kinds
	}
	return nil, true
}

// keepUnrefused returns the candidates that no literal refuses, up to want.
func (s *Solver) keepUnrefused(st *state, candidates []any, want int) []any {
	var out []any
	for _, v := range candidates {
		if s.isRefused(st, v) {
			continue
		}
		if s.workSpent() {
			break
		}
		if out = append(out, v); len(out) >= want {
			break
		}
	}
	return out
}

// isRefused reports whether a literal of st is certainly false of v.
func (s *Solver) isRefused(st *state, v any) bool {
	return slices.ContainsFunc(st.all, func(f Formula) bool { return s.evalFormula(f, v) == No })
}

// solveEnum tries every value that can equal an enum value in the sense of [Same], or one of each sort.
func (s *Solver) solveEnum(st *state, k Kind, values []any, want int) ([]any, bool) {
	var candidates []any
	complete := true
	for _, e := range values {
		equal, all := st.valuesSameAs(e, k)
		candidates, complete = append(candidates, equal...), complete && all
	}
	candidates = slices.DeleteFunc(candidates, func(v any) bool { return KindOf(v) != k })
	out := s.keepUnrefused(st, candidates, want)
	if !complete && len(out) == 0 {
		s.recordReason("other numbers that upstream takes for one of an enum")
	}
	return out, complete
}

// valuesSameAs returns values that equal an enum value in the sense of [Same], and whether they stand for all of kind k.
func (st *state) valuesSameAs(e any, k Kind) (equal []any, all bool) {
	switch e := e.(type) {
	case string:
		r := []rune(e)
		if len(r) != 1 {
			return []any{e}, true
		}
		// Go converts 65 to "A", and so upstream accepts it; and it converts every number that is no code point to U+FFFD.
		return []any{e, int64(r[0])}, r[0] != utf8.RuneError || k != Int
	case int64:
		equal, all = []any{e, float64(e)}, true
		if k == Float {
			found, complete := st.truncatedTo(e)
			equal, all = append(equal, found...), complete
		}
		return equal, all
	case float64:
		equal = []any{e}
		if i := int64(e); float64(i) == e {
			equal = append(equal, i)
		}
		return equal, math.Abs(e) < exactFloat || k != Int // beyond, several integers convert to the same float
	}
	return []any{e}, true
}

// exactFloat bounds the floats that represent every integer exactly.
const exactFloat = 1 << 53

// truncatedTo returns floats that Go truncates to the integer e, readable ones first, and whether they stand for all of them. Between e
// and the next integer, the truth of the facts of st about floats changes only at the bounds and values that they name, and at the
// limits of [IsIntegral], which are next to the two ends. So one float on each side of each such point, and one in the middle,
// represent the rest. That does not hold for multiples.
func (st *state) truncatedTo(e int64) ([]any, bool) {
	if slices.Contains(st.integral, Integral{Exact: true}) {
		return nil, true // float64(e) is the only one
	}
	if e <= -exactFloat || e >= exactFloat {
		return nil, false // what does not fit becomes some integer
	}
	lo, hi := float64(e), float64(e)
	if e >= 0 {
		hi++
	}
	if e <= 0 {
		lo--
	}
	points := []float64{lo, hi, float64(e), st.floats.Lo, st.floats.Hi}
	for _, n := range st.enums {
		for _, v := range n.Values {
			switch v := v.(type) {
			case float64:
				points = append(points, v)
			case int64:
				points = append(points, float64(v))
			}
		}
	}
	out := []any{(float64(e) + hi) / 2, (float64(e) + lo) / 2}
	for _, p := range points {
		for _, v := range []float64{p, math.Nextafter(p, math.Inf(-1)), math.Nextafter(p, math.Inf(1))} {
			if v > lo && v < hi || v == float64(e) {
				out = append(out, v)
			}
		}
	}
	return out, len(st.floatMult) == 0
}
