package contain

// Does the API server's own code confirm a witness? For example, a witness for a lowered maximum counts only if that code refuses the
// object.

import (
	"context"
	"slices"
)

// lastWord judges each witness once more with exact validators, which leave every step to the API server's own code. The search itself
// judges candidates with validators that decide simple steps by themselves, which takes a third of the time over a whole comparison. A
// witness that the API server's code does not confirm counts as none. If the budget does not cover that code, the witnesses stay as they
// are.
func (s *search) lastWord(ctx context.Context, all []*pending) {
	var confirmed []*pending
	var objs []map[string]any
	for _, p := range all {
		if p.done {
			confirmed = append(confirmed, p)
			objs = append(objs, p.gap.Witness.judgedObjects()...)
		}
	}
	if len(confirmed) == 0 || ctx.Err() != nil {
		return
	}
	c, err := s.newConfirmer(ctx, objs)
	if err != nil {
		return // the same schemas and objects had validators before
	}
	before, after := c.old.Costs(), c.new.Costs()
	work := before.Rules + after.Rules
	for _, obj := range objs {
		work += unitsToConfirm + weightOf(obj)*(before.Exact+stepsOfFate*after.Exact)
	}
	if work > s.opts.Work.Left() {
		return
	}
	s.opts.Work.Charge(work)
	c.exact, c.old, c.new = true, c.old.Exact(), c.new.Exact()
	for _, p := range confirmed {
		if w, why := c.confirmAgain(ctx, p.suspect, p.gap.Witness); w != nil {
			p.gap.Witness = w
		} else {
			p.gap.Witness, p.gap.Verdict, p.done, p.reason = nil, Unknown, false, why
		}
	}
}

// stepsOfFate is how often a confirmation asks the new schema about an object: the request, the stored object, and two updates of it.
const stepsOfFate = 4

// judgedObjects are the objects that the API server's code judges for the witness.
func (w *Witness) judgedObjects() []map[string]any {
	return slices.DeleteFunc([]map[string]any{w.Object, w.Old}, func(o map[string]any) bool { return o == nil })
}

// confirmAgain confirms a witness once more. It returns nil and the reason if that fails.
func (c *confirmer) confirmAgain(ctx context.Context, x *suspect, w *Witness) (*Witness, string) {
	why := "the API server's code does not confirm the update"
	switch {
	case x.gap.Harm != RefusedTransition:
		w, _, why = c.tryObject(ctx, x, w.Object)
	case w.Old == nil:
		w = c.confirmStuck(ctx, x, w.Object)
	default:
		w = c.confirmTransition(ctx, x, w.Old, w.Object)
	}
	return w, why
}
