package contain

// Which update shows that a rule about updates is stricter? For example, from 1 to 1 for self > oldSelf in place of self >= oldSelf.

import (
	"context"

	"sluice.dev/schema"
	"sluice.dev/schema/upstream"
)

// confirmTransitions looks for an update that the old schema allows and a rule of the new one refuses, although the new schema accepts
// the object itself. It tries every pair of the states.
func (c *confirmer) confirmTransitions(ctx context.Context, p *pending, states []map[string]any) {
	p.reason = "no update was found that the rule refuses"
	for _, state := range states {
		if ctx.Err() != nil {
			return
		}
		if w := c.confirmStuck(ctx, p.suspect, state); c.recordWitness(p, w) {
			return
		}
	}
	for _, before := range states {
		for _, after := range states {
			if ctx.Err() != nil {
				return
			}
			if w := c.confirmTransition(ctx, p.suspect, before, after); c.recordWitness(p, w) {
				return
			}
		}
	}
}

// recordWitness records a witness, and reports whether the search ends: because of the witness, or because the budget for compiling rules is
// spent.
func (c *confirmer) recordWitness(p *pending, w *Witness) bool {
	if c.s.opts.Work.Spent() {
		p.reason = TooMuch
		return true
	}
	if w != nil {
		p.setWitness(w)
	}
	return w != nil
}

// confirmStuck checks whether the rule refuses even an update that leaves the object unchanged, as self > oldSelf does.
func (c *confirmer) confirmStuck(ctx context.Context, x *suspect, obj map[string]any) *Witness {
	before, err := c.old.Create(ctx, obj)
	if err != nil || before.Refused() || !acceptsAll(ctx, c.new, obj) {
		return nil
	}
	stored, _ := schema.AsStored(before.Stored).(map[string]any)
	if r, err := c.old.TouchUpdate(ctx, stored, c.old.Ratchets()); err != nil || r.Refused() {
		return nil
	}
	r, err := c.new.TouchUpdate(ctx, stored, c.new.Ratchets())
	if err != nil || !r.Refused() {
		return nil
	}
	if len(x.errorsAbout(r.Errors)) == 0 {
		return nil
	}
	return &Witness{Object: obj, Stuck: true, Errors: errorTexts(x.errorsAbout(r.Errors)), StuckErrors: errorTexts(r.Errors)}
}

// confirmTransition checks whether the rule refuses an update that the old schema allows. The new schema must accept the new object by itself,
// or at least its rules and types must, if another change refuses it.
func (c *confirmer) confirmTransition(ctx context.Context, x *suspect, before, after map[string]any) *Witness {
	if !acceptsAll(ctx, c.old, after) {
		return nil
	}
	created, err := c.old.Create(ctx, before)
	if err != nil || created.Refused() {
		return nil
	}
	stored, _ := schema.AsStored(created.Stored).(map[string]any) // with the defaults of the old schema
	stored["metadata"] = before["metadata"]
	before = stored
	judge := c.new
	if !acceptsAll(ctx, judge, after) { // another change refuses it: check the rules alone
		bare, err := c.rulesAlone()
		if err != nil || !acceptsAll(ctx, bare, before, after) {
			return nil
		}
		judge = bare
	}
	if r, err := c.old.Update(ctx, after, before, c.old.Ratchets()); err != nil || r.Refused() {
		return nil
	}
	r, err := judge.Update(ctx, after, before, judge.Ratchets())
	if err != nil || !r.Refused() {
		return nil
	}
	if len(x.errorsAbout(r.Errors)) == 0 {
		return nil
	}
	return &Witness{Object: after, Old: before, WritersOnly: true, Errors: errorTexts(x.errorsAbout(r.Errors))}
}

// acceptsAll reports whether the schema accepts the creation of all the objects.
func acceptsAll(ctx context.Context, v *upstream.Validator, objs ...map[string]any) bool {
	for _, obj := range objs {
		if r, err := v.Create(ctx, obj); err != nil || r.Refused() {
			return false
		}
	}
	return true
}
