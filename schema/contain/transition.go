package contain

import "context"

// confirmTransitions looks for an update that the old schema allows and the new one refuses, though it accepts both
// states. Every pair of the states is tried.
func (c *confirmer) confirmTransitions(ctx context.Context, p *pending, states []map[string]any) {
	p.reason = "no update was found that the rule refuses"
	for _, before := range states {
		for _, after := range states {
			if ctx.Err() != nil {
				return
			}
			if w := c.confirmTransition(ctx, &p.gap, before, after); w != nil {
				p.gap.Verdict, p.gap.Witness, p.done = NotContained, w, true
				return
			}
		}
	}
}

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
