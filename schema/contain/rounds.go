package contain

// Which candidates are tried, in which order? The candidates of all suspects are confirmed together, round by round. For example, the first round
// tries the simplest object of each, which shows most gaps, and the last one looks for objects that fare worse than their witness.

import (
	"cmp"
	"context"
	"fmt"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/schema/upstream"
)

// resolveSuspects decides the suspects. It leaves out those that the whole schema proves. It confirms candidates of all suspects together,
// round by round, because preparing the upstream code is expensive.
func (s *search) resolveSuspects(ctx context.Context, suspects []suspect) []Gap {
	all := make([]*pending, 0, len(suspects))
	for i := range suspects {
		p := &pending{suspect: &suspects[i]}
		if s.solvePending(ctx, p) {
			all = append(all, p)
		} else {
			s.traceImplied(p)
		}
	}
	for round := range roundOfFailures + 1 {
		s.confirmRound(ctx, all, round)
		for _, p := range all {
			if w := cmp.Or(p.worst, p.mixed); round > 0 && !p.done && w != nil {
				p.setWitness(w)
			}
		}
	}
	if !s.opts.Draft {
		s.lastWord(ctx, all)
	}
	gaps, ratchets, unlooked := make([]Gap, 0, len(all)), upstream.RatchetsIn(s.opts.KubeVersion), 0
	for _, p := range all {
		if !p.done {
			p.gap.Verdict, p.gap.Reason = Unknown, s.explainUnknown(p)
		} else {
			p.gap.Worst = s.worstFate(p, ratchets)
		}
		s.traceVerdict(p)
		if p.gap.OutOfBudget() {
			if unlooked++; unlooked > maxUnlooked {
				continue
			}
		}
		gaps = append(gaps, p.gap)
	}
	if more := unlooked - maxUnlooked; more > 0 && s.cut == "" {
		s.cut = fmt.Sprintf("%d more changes: %s", more, TooMuch)
	}
	return gaps
}

// The last rounds of candidates draw objects for rules that are undecided, and look for objects that fare worse than the tolerated witness of a
// rule.
const roundOfDraws, roundOfFailures = 3, 4

// maxUnlooked bounds the changes that are named as undecided because the budget was spent before.
const maxUnlooked = 200

// solvePending finds the first candidates. It returns false for a proof that there are none.
func (s *search) solvePending(ctx context.Context, p *pending) bool {
	if err := ctx.Err(); err != nil {
		p.stopped = true
		p.reason = "stopped: " + err.Error()
		return true
	}
	if s.opts.Work.Spent() {
		p.reason = TooMuch
		return true
	}
	done := s.opts.Work.Done()
	r, oddAlone := s.findCandidates(p)
	if r.None && p.whole != nil { // the places that the walk skipped have to be proven too
		p.local, p.whole, p.deeper = p.whole, nil, true
		r, oddAlone = s.findCandidates(p)
	}
	p.gap.OddAlone = oddAlone
	s.traceSearch(p, r, s.opts.Work.Done()-done)
	p.models, p.reason = r.Models, r.Reason
	if p.loses != nil && !r.None {
		p.models = append(s.solveBriefly(1, s.formulasFor(p, p.loses)...), p.models...)
	}
	if p.gap.Harm == RefusedTransition && len(r.Models) > 0 {
		p.models = s.transitionStates(p)
	}
	return !r.None
}

// roundCandidates returns the candidates of a round: the simplest, then the other first ones, then more, then drawn ones. The last round is for gaps that have
// a witness already.
func (s *search) roundCandidates(p *pending, round int) []any {
	switch {
	case round == roundOfFailures:
		if p.done && !s.opts.Work.Spent() {
			return s.failures(p)
		}
	case p.done || len(p.models) == 0:
	case p.gap.Harm == RefusedTransition: // all pairs of states are tried at once
		if round == 0 {
			return p.models
		}
	case round == 0:
		return p.models[:1]
	case round == 1:
		return s.otherCandidates(p)
	case s.opts.Work.Spent():
	case round == roundOfDraws:
		return s.drawnCandidates(p)
	default:
		return s.moreCandidates(p)
	}
	return nil
}

// otherCandidates returns the candidates after the first one. If that was a witness with a flaw, they begin with ones that lack the flaw.
func (s *search) otherCandidates(p *pending) []any {
	if w := cmp.Or(p.worst, p.mixed); w != nil && w.WritersOnly {
		return append(s.storedCandidates(p), p.models[1:]...)
	}
	if p.mixed != nil || p.rule != "" {
		return append(s.evaluatedCandidates(p), p.models[1:]...)
	}
	if p.firstModels() < firstModels {
		p.models = s.solver.Solve(firstModels, s.formulasFor(p)...).Models
	}
	return p.models[min(1, len(p.models)):]
}

// moreCandidates returns candidates that were not tried yet, and for a rule those that its own constants suggest.
func (s *search) moreCandidates(p *pending) []any {
	more := s.solver.Solve(tries, s.formulasFor(p)...).Models
	more = more[min(len(more), len(p.models)):]
	if p.rule != "" {
		more = append(more, s.probedCandidates(p)...)
	}
	return more
}

// evaluatedCandidates returns candidates without other errors, so that the API server evaluates the rule.
func (s *search) evaluatedCandidates(p *pending) []any {
	if s.plain == nil {
		node, err := schema.New(withoutRules(s.sides[1].Props))
		if err != nil {
			return nil // cannot be: it is a part of a schema that passed
		}
		t := newTranslator(s.opts)
		s.plain = t.acceptedAt(place{node: node, pos: atRoot, unchecked: s.sides[1].StatusUnchecked})
	}
	return s.solveBriefly(4, append(s.formulasFor(p), s.plain)...)
}

// probedCandidates returns candidates that the rule's own constants suggest. There are many probes, so each has a small budget. Together, they
// have the budget of one search.
func (s *search) probedCandidates(p *pending) []any {
	var out []any
	most := s.opts.Work.Done() + s.solver.Budget
	for _, f := range takeAlternately(s.hintedCases(p), s.probesFor(p)) {
		if out = append(out, s.solveBriefly(2, s.formulasFor(p, f)...)...); s.opts.Work.Done() > most {
			break
		}
	}
	return out
}

// takeAlternately takes from both in turns.
func takeAlternately(a, b []logic.Formula) []logic.Formula {
	out := make([]logic.Formula, 0, len(a)+len(b))
	for i := range max(len(a), len(b)) {
		out = append(out, a[min(i, len(a)):min(i+1, len(a))]...)
		out = append(out, b[min(i, len(b)):min(i+1, len(b))]...)
	}
	return out
}

// confirmRound confirms the candidates of one round. If the budget does not cover them, no suspect gets more candidates.
func (s *search) confirmRound(ctx context.Context, all []*pending, round int) {
	batches := make([][]map[string]any, len(all))
	var objs []map[string]any
	for i, p := range all {
		for _, m := range s.roundCandidates(p, round) {
			if o, ok := p.withNullForDefault(m).(map[string]any); ok {
				batches[i] = append(batches[i], o)
			}
		}
		objs = append(objs, batches[i]...)
	}
	if len(objs) == 0 || ctx.Err() != nil {
		return
	}
	work := int64(0)
	for _, obj := range objs {
		work += unitsToConfirm + unitsForValue*weightOf(obj)
	}
	if !s.opts.Work.Charge(work) {
		for _, p := range all {
			p.reason = orDefault(p.reason, TooMuch)
		}
		return
	}
	c, err := s.newConfirmer(ctx, objs)
	for i, p := range all {
		switch {
		case len(batches[i]) == 0:
		case s.opts.Work.Spent():
			p.reason = orDefault(p.reason, TooMuch)
		case err != nil:
			p.reason = err.Error()
		case p.gap.Harm == RefusedTransition:
			c.confirmTransitions(ctx, p, batches[i])
		default:
			c.confirmAny(ctx, p, batches[i])
		}
	}
}

// asksForDefault reports whether the gap is about the default of items or of values ([walker.compareNullDefaults]). Nothing is stored without it.
func (p *pending) asksForDefault() bool {
	return p.gap.Keyword == "default" && p.gap.Detail == "" && len(p.path) == len(p.gap.Path)
}

// withNullForDefault returns a candidate for the default of items or of values with null in its place.
func (p *pending) withNullForDefault(obj any) any {
	if !p.asksForDefault() {
		return obj
	}
	return replacedAt(obj, p.path, func(any) any { return nil })
}

// confirmAny confirms candidates until a stored object is harmed, and keeps the one that fares worst. If there is a witness already, it
// looks for one that fares worse. For a rule, a witness that only this change refuses is better than one that other changes refuse as well,
// so confirmAny looks for such a witness among the first candidates.
func (c *confirmer) confirmAny(ctx context.Context, p *pending, objs []map[string]any) {
	for _, obj := range objs {
		w, alone, why := c.confirmWitness(ctx, p.suspect, obj)
		c.s.traceCandidate(p, obj, w, why)
		if w == nil {
			p.reason = orDefault(p.reason, why)
			continue
		}
		if w.Ratcheted {
			w, alone = c.confirmUnequal(ctx, p.suspect, w, alone)
		}
		clean := w.Masked == nil && (p.says == "" || alone)
		switch {
		case p.done:
			if clean && w.Fate() > p.gap.Witness.Fate() {
				p.setWitness(w)
				return
			}
		case clean && (p.gap.Harm != Refused || !w.WritersOnly):
			p.setWitness(w)
			return
		case clean:
			p.worst = worseWitness(p.worst, w)
		default:
			p.mixed = worseWitness(p.mixed, w)
		}
	}
}

// worseWitness returns the witness that fares worse, the first one of equals.
func worseWitness(a, b *Witness) *Witness {
	if a == nil || b.Fate() > a.Fate() {
		return b
	}
	return a
}

// tries bounds the candidates that are confirmed for one gap.
const tries = 48
