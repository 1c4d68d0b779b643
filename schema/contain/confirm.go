package contain

// Does the API server's code confirm a candidate? The old schema must accept it, and the new one must harm it as the gap says. For example, an
// object with 6 counts for a maximum of 5 only if the new schema refuses it because of this maximum.

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/schema"
	"sluice.dev/schema/upstream"
)

// confirmer runs candidates through the upstream code of both sides.
type confirmer struct {
	old, new *upstream.Validator
	s        *search
	objs     []map[string]any
	bare     *upstream.Validator
	bareErr  error
	exact    bool // the validators are exact
}

// newConfirmer prepares the validators of both sides for some objects. That costs more than to judge them, so all candidates of a round share
// one.
func (s *search) newConfirmer(ctx context.Context, objs []map[string]any) (*confirmer, error) {
	c := &confirmer{s: s, objs: slices.Clip(objs)}
	var err error
	if c.old, err = s.oldCut.For(objs...); err != nil {
		return nil, err
	}
	if s.opts.sharedLibrary().defaultsText(s.oldRoot.node) != "" { // the stored object has more fields, which the projected schemas have to know
		for _, obj := range objs {
			if r, err := c.old.Create(ctx, obj); err == nil && !r.Refused() {
				c.objs = append(c.objs, r.Stored)
			}
		}
		if c.old, err = s.oldCut.For(c.objs...); err != nil {
			return nil, err
		}
	}
	if c.new, err = s.newCut.For(c.objs...); err != nil {
		return nil, err
	}
	before, after := c.old.Costs(), c.new.Costs()
	work := before.Prepare + after.Prepare
	for _, obj := range c.objs {
		work += weightOf(obj) * (before.Simple + after.Simple)
	}
	s.opts.Work.Charge(work)
	return c, nil
}

// rulesAlone returns a validator of the new schema's rules and types only. The API server does not evaluate rules if there are other
// errors, and another change may cause such an error for every object.
func (c *confirmer) rulesAlone() (*upstream.Validator, error) {
	if s := c.s; s.bareCut == nil {
		s.bareCut = upstream.NewProjector(withoutValues(s.sides[1].Props), s.opts.upstreamOptions(&s.sides[1])).Share(s.sides[1].Node, &s.opts.Shared.compiled)
	}
	if c.bare == nil && c.bareErr == nil {
		if c.bare, c.bareErr = c.s.bareCut.For(c.objs...); c.bareErr == nil && c.exact {
			c.bare = c.bare.Exact()
		}
	}
	return c.bare, c.bareErr
}

// refusesMasked reports whether the rule refuses the object, although the API server does not evaluate it because of other errors.
func (c *confirmer) refusesMasked(ctx context.Context, x *suspect, obj map[string]any) bool {
	bare, err := c.rulesAlone()
	if err != nil {
		return true
	}
	r, err := bare.Create(ctx, obj)
	return err != nil || slices.ContainsFunc(r.Errors, func(e *field.Error) bool { return blamesGap(&x.gap, field.ErrorList{e}) })
}

// confirmWitness returns the witness for the gap that obj gives, and whether only the gap refuses it; or why it gives none. If the budget does
// not cover the compilation of rules, the result does not count.
func (c *confirmer) confirmWitness(ctx context.Context, x *suspect, obj map[string]any) (w *Witness, alone bool, why string) {
	if w, alone, why = c.tryObject(ctx, x, obj); c.s.opts.Work.Spent() {
		return nil, false, TooMuch
	}
	return w, alone, why
}

// tryObject is confirmWitness without regard to the budget.
func (c *confirmer) tryObject(ctx context.Context, x *suspect, obj map[string]any) (w *Witness, alone bool, why string) {
	before, err := c.old.Create(ctx, obj)
	switch {
	case err != nil:
		return nil, false, err.Error()
	case len(before.Errors) > 0:
		return nil, false, "the old schema refuses the candidates: " + before.Errors[0].Error()
	case len(before.Pruned) > 0:
		return nil, false, "the old schema prunes the candidates: " + strings.Join(before.Pruned, ", ")
	}
	after, err := c.new.Create(ctx, obj)
	if err != nil {
		return nil, false, err.Error()
	}
	w = &Witness{Object: obj, PrunedPaths: after.Pruned, Errors: errorTexts(after.Errors)}
	switch g := &x.gap; g.Harm {
	case Redefaulted:
		w.Before, _ = ValueAt(before.Stored, g.Path)
		w.After, _ = ValueAt(after.Stored, g.Path)
		if reflect.DeepEqual(w.Before, w.After) {
			return nil, false, "both sides fill in the same"
		}
		return w, true, ""
	case Pruned:
		w.PrunedPaths = appendLostPaths(obj, after.Stored, "", nil)
		if !matchesPath(g.Path, w.PrunedPaths) {
			return nil, false, "the new schema keeps the field"
		}
		return w, true, ""
	case Refused, RefusedTransition:
	}
	return c.blameRefusal(ctx, x, w, before.Stored, after)
}

// blameRefusal completes the witness of a gap about refusals, if the gap is a reason of the refusal. stored is the object as the old schema
// stores it, after the result under the new one.
func (c *confirmer) blameRefusal(ctx context.Context, x *suspect, w *Witness, stored map[string]any, after upstream.Result) (_ *Witness, alone bool, why string) {
	errs := after.Errors
	about := x.errorsAbout(errs)
	if len(about) == 0 && len(errs) > 0 {
		if w.Masked = c.maskedErrors(ctx, x, w.Object); len(w.Masked) > 0 {
			return w, false, c.determineFate(ctx, x, w, stored)
		}
	}
	switch {
	case len(errs) == 0 && x.gap.Keyword == "x-kubernetes-list-type":
		if w.Unappliable, why = c.refusalOfApply(stored); w.Unappliable == "" {
			return nil, false, cmp.Or(why, "the new schema accepts the candidates")
		}
		w.Stuck, w.StuckErrors, w.Errors = true, []string{w.Unappliable}, []string{w.Unappliable}
		return w, true, ""
	case len(errs) == 0:
		return nil, false, "the new schema accepts the candidates"
	case len(about) == 0:
		return nil, false, "the new schema refuses the candidates for another reason: " + errs[0].Error()
	}
	w.Lost = x.loses != nil && matchesPath(append(slices.Clone(x.gap.Path), Step{Kind: AnyKey}), appendLostPaths(w.Object, after.Stored, "", nil))
	// The errors of the gap come first.
	others := slices.DeleteFunc(slices.Clone(errs), func(e *field.Error) bool { return slices.Contains(about, e) })
	w.Errors = append(errorTexts(about), errorTexts(others)...)
	return w, len(others) == 0, c.determineFate(ctx, x, w, stored)
}

// maskedErrors are the errors of the gap's rule that the API server does not come to, because the object has others.
func (c *confirmer) maskedErrors(ctx context.Context, x *suspect, obj map[string]any) []string {
	if x.gap.Keyword != keywordRules {
		return nil
	}
	bare, err := c.rulesAlone()
	if err != nil {
		return nil
	}
	r, err := bare.Create(ctx, obj)
	if err != nil {
		return nil
	}
	return errorTexts(x.errorsAbout(r.Errors))
}

// determineFate determines the fate of the object once it is stored.
func (c *confirmer) determineFate(ctx context.Context, x *suspect, w *Witness, stored map[string]any) string {
	stored, _ = schema.AsStored(stored).(map[string]any)
	again, err := c.new.Create(ctx, stored)
	if err != nil {
		return err.Error()
	}
	if !blamesGap(&x.gap, again.Errors) && (w.Masked == nil || !c.refusesMasked(ctx, x, stored)) {
		w.WritersOnly = true
		return ""
	}
	touched, err := c.new.TouchUpdate(ctx, stored, c.new.Ratchets())
	if err != nil {
		return err.Error()
	}
	w.StuckErrors = errorTexts(touched.Errors)
	if w.Stuck = len(w.StuckErrors) > 0; w.Stuck {
		return ""
	}
	if x.gap.Keyword == keywordRules { // a rule that itself tolerates stored values (optionalOldSelf) needs no ratcheting
		plain, err := c.new.TouchUpdate(ctx, stored, false)
		if err != nil {
			return err.Error()
		}
		w.WritersOnly = !plain.Refused()
	}
	if x.gap.Keyword == "type" || x.gap.Keyword == "x-kubernetes-list-type" { // an apply is merged with the stored object by the types of the new schema
		var why string
		if w.Unappliable, why = c.refusalOfApply(stored); why != "" {
			return why
		}
		if w.Stuck = w.Unappliable != ""; w.Stuck {
			w.StuckErrors = []string{w.Unappliable}
			return ""
		}
	}
	if w.Ratcheted = !w.WritersOnly; w.Ratcheted && c.s.statusUnratcheted() {
		write, err := c.new.UpdateStatus(ctx, stored, stored, true)
		if err != nil {
			return err.Error()
		}
		if write.Refused() {
			w.StuckErrors = errorTexts(write.Errors)
			w.Stuck, w.Ratcheted, w.StatusRefused = true, false, w.StuckErrors[0]
		}
	}
	return ""
}

// refusalOfApply says why no server-side apply to the stored object passes, or why that is not known.
func (c *confirmer) refusalOfApply(stored map[string]any) (refusal, unknown string) {
	stored, _ = schema.AsStored(stored).(map[string]any)
	refusal, err := c.new.Unappliable(stored)
	if err != nil {
		return "", err.Error()
	}
	return refusal, ""
}

// unitsToConfirm is the work of running one candidate through the upstream code of both sides, unitsForValue what each value in it adds.
const unitsToConfirm, unitsForValue = 200, 10
