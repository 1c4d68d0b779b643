package logic

// What does a search carry along? A solver has the library for strings, the budget, and what it remembers of earlier searches. For example, two
// fields with the same schema are searched once.

import (
	"slices"
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
	// Long returns a pattern of some strings of a format that can be long; empty if there are none.
	Long(format string) string
	// Shape returns a pattern that all strings of the format match, and others as well; empty if there is none.
	Shape(format string) string
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

// Spent is the reason of a search that its budget ended.
const Spent = "the search budget is spent; a larger one (--budget) may decide this"

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

// recordClash records the choices that a contradiction rests on.
func (s *Solver) recordClash(why deps) bool {
	s.why = why
	return false
}

// dropKind rules a kind out, because the facts about it contradict each other.
func (s *Solver) dropKind(st *state, k Kind, why deps) bool {
	if st.kinds&k != 0 {
		st.kinds &^= k
		st.why |= why
	}
	if st.kinds == 0 {
		return s.recordClash(st.why)
	}
	return true
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

// searchWidth is the number of alternatives to search for one part if the whole needs want.
func searchWidth(want int) int { return min(want, 6) }
