package contain

// What is asked, and with which options? For example, Decide asks whether the new side accepts every object of the old side.

import (
	"context"
	"slices"

	"sluice.dev/schema"
	"sluice.dev/schema/upstream"
)

// Result is the answer of [Decide].
type Result struct {
	// Verdict is Contained if there are no gaps, NotContained if a gap has a witness, and Unknown otherwise.
	Verdict Verdict
	// Gaps are in the order of the walk: by path, then keyword. Gaps that only change defaults (Redefaulted) leave the verdict Contained:
	// everything is still accepted and kept.
	Gaps []Gap
}

// Decide decides whether every object that old accepts fares the same under new: new accepts it, prunes nothing of it, and fills in the
// same defaults. The API server has to accept the new schema; [upstream.ValidateCRD] says whether it does. Decide never panics and always ends. If it cannot decide within its budgets, the answer is Unknown. If the context is
// done, it ends early, and the rest is Unknown.
func Decide(ctx context.Context, old, new Side, opts Options) Result {
	if old.Node.Hash() == new.Node.Hash() && old.StatusUnchecked == new.StatusUnchecked {
		opts.traceProven(nil, "schema", "", equalSubtree)
		return Result{Verdict: Contained}
	}
	o := &opts
	s := newComparison(old, new, o)
	r := Result{Verdict: Contained}
	suspects := s.suspects
	if o.Only != nil {
		suspects = slices.DeleteFunc(suspects, func(x suspect) bool { return !o.Only(&x.gap) })
	}
	for _, g := range s.resolveSuspects(ctx, suspects) {
		r.addGap(g)
	}
	if s.cut != "" {
		r.addGap(Gap{Keyword: "schema", Verdict: Unknown, Reason: s.cut, Rule: -1})
	}
	return r
}

// newComparison walks the two schemas and collects what the parts alone do not prove.
func newComparison(old, new Side, o *Options) *search {
	if o.Work == nil {
		o.Work = NewWork(orDefault(o.Budget, DefaultBudget))
	}
	w := o.newWalker()
	oldRoot, newRoot := old.rootPlace(), new.rootPlace()
	if o.Within != nil {
		w.within = map[*schema.Node]*schema.Node{}
		w.pairNodes(old.Node, o.Within.Node)
	}
	w.comparePlaces(oldRoot, newRoot)
	if w.cut = nonStructuralKeyword(old.Node, new.Node); o.Work.Spent() { // no more is translated or compared
		w.cut = TooMuch
	}
	return &search{
		walker: w, oldRoot: oldRoot, sides: [2]Side{old, new},
		oldCut: upstream.NewProjector(old.Props, o.upstreamOptions(&old)).Share(old.Node, &o.Shared.compiled),
		newCut: upstream.NewProjector(new.Props, o.upstreamOptions(&new)).Share(new.Node, &o.Shared.compiled),
	}
}

// addGap adds a gap to the result. A witness outweighs everything, and an Unknown outweighs Contained. Gaps that only
// change defaults leave the verdict as it is.
func (r *Result) addGap(g Gap) {
	r.Gaps = append(r.Gaps, g)
	if g.Harm == Redefaulted {
		return
	}
	if g.Verdict == NotContained || r.Verdict == Contained {
		r.Verdict = g.Verdict
	}
}
