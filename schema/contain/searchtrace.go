package contain

// What did the search do? For example, the trace of a suspect says how many candidates there were, and why one is no witness.

import (
	"fmt"
	"strings"

	"sluice.dev/schema/contain/internal/logic"
)

// traceImplied reports a suspect that the whole of the old schema proves.
func (s *search) traceImplied(p *pending) {
	switch {
	case p.gap.Detail == ListsLetThrough:
	case p.deeper:
		s.opts.traceProven(p.gap.Path, p.gap.Keyword, p.where, subtreeByWhole)
	case p.gap.Harm == RefusedTransition:
		s.opts.traceProven(p.gap.Path, p.gap.Keyword, p.where, updateImplied)
	default:
		s.opts.traceProven(p.gap.Path, p.gap.Keyword, p.where, impliedByWhole)
	}
}

// traceSearch reports the end of a search in the whole object.
func (s *search) traceSearch(p *pending, r logic.Result, done int64) {
	if s.opts.Trace == nil {
		return
	}
	found := "candidates: " + fmt.Sprint(len(r.Models))
	switch {
	case r.None:
		found = "no object"
	case len(r.Models) == 0:
		found = "gave up: " + r.Reason
	}
	s.opts.traceStep(&p.gap, nil, "searched the whole object, %d units of work: %s", done, found)
}

// traceCandidate reports the verdict of the API server's code about a candidate.
func (s *search) traceCandidate(p *pending, obj map[string]any, w *Witness, why string) {
	switch {
	case s.opts.Trace == nil:
	case w == nil:
		s.opts.traceStep(&p.gap, obj, "candidate is no witness: %s", orDefault(why, "the new schema does to it what the old one does"))
	case len(w.Masked) > 0:
		s.opts.traceStep(&p.gap, obj, "candidate breaks the rule, but the API server refuses it before it evaluates the rule: %s", w.Errors[0])
	case len(w.Errors) > 0:
		s.opts.traceStep(&p.gap, obj, "candidate is a witness: the new schema refuses it: %s", w.Errors[0])
	default:
		s.opts.traceStep(&p.gap, obj, "candidate is a witness: the new schema drops or fills in %s", orDefault(strings.Join(w.PrunedPaths, ", "), "other values"))
	}
}

// traceVerdict reports the verdict about a suspect.
func (s *search) traceVerdict(p *pending) {
	switch {
	case s.opts.Trace == nil:
	case p.gap.Verdict == Unknown:
		s.opts.traceStep(&p.gap, nil, "unknown: %s", p.gap.Reason)
	case p.gap.Harm == RefusedTransition:
		s.opts.traceStep(&p.gap, p.gap.Witness.Object, "not contained: the new schema refuses an update to this object: %s", p.gap.Witness.Errors[0])
	default:
		s.opts.traceStep(&p.gap, nil, "not contained")
	}
}
