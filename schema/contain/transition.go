package contain

import (
	"context"

	"sluice.dev/schema/contain/internal/logic"
)

// resolveTransition looks for an update that the old schema allows and the new one refuses, though it accepts both states.
func (s *search) resolveTransition(ctx context.Context, x *suspect) (Gap, bool) {
	g := x.gap
	base := []logic.Formula{s.old.accepts(s.oldRoot), s.envelope()}
	with := s.solver.Solve(transitionModels, append(base, x.goal)...)
	if with.None {
		return g, false
	}
	models := with.Models
	models = append(models, s.solver.Solve(2, base...).Models...) // perhaps without the value at all
	g.Verdict, g.Reason = Unknown, orDefault(with.Reason, "no update was found that the rule refuses")
	if len(models) == 0 {
		return g, true
	}
	c, err := s.newConfirmer(models)
	if err != nil {
		g.Reason = err.Error()
		return g, true
	}
	for _, a := range models {
		for _, b := range models {
			before, okA := a.(map[string]any)
			after, okB := b.(map[string]any)
			if !okA || !okB || ctx.Err() != nil {
				continue
			}
			if w := c.confirmTransition(ctx, &g, before, after); w != nil {
				g.Verdict, g.Reason, g.Witness = NotContained, "", w
				return g, true
			}
		}
	}
	return g, true
}

// transitionModels is how many states are made; all pairs of them are tried.
const transitionModels = 8

func (c *confirmer) confirmTransition(ctx context.Context, g *Gap, before, after map[string]any) *Witness {
	for _, obj := range []map[string]any{before, after} {
		if r, err := c.old.Create(ctx, obj); err != nil || r.Refused() {
			return nil
		}
		if r, err := c.new.Create(ctx, obj); err != nil || r.Refused() {
			return nil
		}
	}
	if r, err := c.old.Update(ctx, after, before, c.old.Ratchets()); err != nil || r.Refused() {
		return nil
	}
	r, err := c.new.Update(ctx, after, before, c.new.Ratchets())
	if err != nil || !r.Refused() {
		return nil
	}
	w := &Witness{Object: after, Old: before, WritersOnly: true}
	for _, e := range r.Errors {
		w.Errors = append(w.Errors, e.Error())
	}
	if !blames(g, w.Errors) {
		return nil
	}
	return w
}
