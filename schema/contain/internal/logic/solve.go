package logic

// Is there a value that makes all of these formulas true? The solver adds them to a state, splits disjunctions one by one, and looks for a
// value of each kind that is left. For example, of "is an integer over 5, and is 3 or 8" it drops 3 and finds 8.
//
// A search returns models and whether there certainly are none. No models and no proof means that it gave up, and s.reason says why. If there
// certainly are none, s.why has the choices that this rests on (see state.go).

import (
	"cmp"
	"slices"
)

// Result is the answer of a search.
type Result struct {
	// Models are values that make the formula true, apart from opaque parts, simple ones first.
	Models []any
	// None is true if it is proven that there is no model. It is false if models were found, or if the search gave up.
	None bool
	// Reason says why the search gave up, if Models is empty and None is false.
	Reason string
}

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
		// No request of that size reaches the API server.
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

// prepareMemory gives the solver a memory of its own, unless it shares one.
func (s *Solver) prepareMemory() {
	if s.Memory == nil {
		s.Memory = &Memory{}
	}
	s.table = &s.Memory.Table
}

const maxDepth = 200

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
	// What is remembered has only the reasons of its own search.
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

// solveNew is solveFacts for a conjunction that is not remembered. A contradiction while the facts are added is a
// proof.
func (s *Solver) solveNew(fs []fact, want, depth int) ([]any, bool) {
	st := newState()
	for _, f := range fs {
		if !s.addFormula(st, f.f, f.why) {
			return nil, true
		}
	}
	return s.searchState(st, want, depth)
}

// searchState splits a disjunction if one is left, and searches each kind of value otherwise. The proof that there is none rests on all that
// rules out kinds, and on the facts about each kind that is left.
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

// solveKind searches values of one kind. An enum comes first: its few values are tried, whatever else is known.
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
