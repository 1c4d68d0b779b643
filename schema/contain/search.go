package contain

// Which object shows a harm? For example, for a maximum that is lowered to 5 the search finds an object with 6, and lets the validators
// confirm it.

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/schema/upstream"
)

// search turns suspects into gaps: it looks for objects that show the harm, and confirms them.
type search struct {
	*walker
	oldRoot        place
	sides          [2]Side // old and new
	oldCut, newCut *upstream.Projector
	bareCut        *upstream.Projector // of the new schema's rules and types alone; nil until it is needed
	newProps       *apiextensionsv1.JSONSchemaProps
	plain          logic.Formula // the values that the new schema accepts without its rules; nil until it is needed
}

// pending is a suspect that is not decided yet.
type pending struct {
	*suspect
	models []any
	reason string
	done   bool
	// mixed is a witness that other changes refuse as well.
	mixed *Witness
	// worst is the witness that fares worst so far.
	worst *Witness
	// spared is set if it is proven that no stored object is harmed.
	spared bool
	// stopped is set if the context was done.
	stopped bool
	// deeper is set if it is proven that the type does not differ, and the search covers the places below it that the walk skipped.
	deeper bool
}

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

// roundOfFailures is the last round of candidates. It looks for objects that fare worse than the tolerated witness of a rule.
const roundOfFailures = 3

// maxUnlooked bounds the changes that are named as undecided because the budget was spent before.
const maxUnlooked = 200

// unitsToConfirm is the work of running one candidate through the upstream code of both sides, unitsForValue what each value in it adds.
const unitsToConfirm, unitsForValue = 200, 10

// weightOf is the number of values in v, and more for long strings.
func weightOf(v any) int64 {
	n := int64(1)
	switch v := v.(type) {
	case string:
		n += int64(len(v)) / 512
	case map[string]any:
		for _, x := range v {
			n += weightOf(x)
		}
	case []any:
		for _, x := range v {
			n += weightOf(x)
		}
	}
	return n
}

// firstModels is the number of first candidates from a suspect. Of a field that may be lost, the first one mostly shows it.
const firstModels = 12

func (p *pending) firstModels() int {
	if p.gap.Harm == Pruned {
		return 1
	}
	return firstModels
}

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

// findCandidates looks for candidates, or a proof that there are none: first among simple objects with values in their usual form, then among all
// objects. oddAlone is true if it is proven that no candidate has all values in their usual form.
func (s *search) findCandidates(p *pending) (r logic.Result, oddAlone bool) {
	if r = s.solveFor(p, s.simpleEnvelope(), false); !r.None {
		return r, false
	}
	all := s.solveFor(p, s.anyEnvelope(), true) // the remaining ones may be odd, or have more metadata
	if all.None || !s.old.hasOdd(s.oldRoot.node, 0) {
		return all, false
	}
	if r = s.solveFor(p, s.anyEnvelope(), false); !r.None {
		return r, false
	}
	if r = s.solveFor(p, s.simpleEnvelope(), true); !r.None {
		return r, true
	}
	return all, true
}

// solveFor looks for candidates in an envelope, with odd values if odd is set.
func (s *search) solveFor(p *pending, envelope logic.Formula, odd bool) logic.Result {
	return s.solver.Solve(p.firstModels(), s.formulasIn(envelope, odd, p)...)
}

// formulasFor says what simple candidates have to be, once it is known whether only odd ones can be candidates.
func (s *search) formulasFor(p *pending, more ...logic.Formula) []logic.Formula {
	return s.formulasIn(s.simpleEnvelope(), p.gap.OddAlone, p, more...)
}

// formulasIn says what candidates in an envelope have to be. If odd is not set, all their values have their usual form.
func (s *search) formulasIn(envelope logic.Formula, odd bool, p *pending, more ...logic.Formula) []logic.Formula {
	fs := []logic.Formula{s.old.acceptedAt(s.oldRoot), envelope, atPath(p.path, append(logic.And{p.local}, more...))}
	if !odd {
		fs = append(fs, s.old.writtenAt(s.oldRoot))
	}
	return fs
}

// roundCandidates returns the candidates of a round: the simplest, then the other first ones, then more. The last round is for gaps that have
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
	case !s.opts.Work.Spent():
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
		node, err := schema.New(withoutRules(s.newProps))
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

func (s *search) confirmRound(ctx context.Context, all []*pending, round int) {
	batches := make([][]map[string]any, len(all))
	var objs []map[string]any
	for i, p := range all {
		for _, m := range s.roundCandidates(p, round) {
			if o, ok := m.(map[string]any); ok {
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

func (p *pending) setWitness(w *Witness) {
	p.gap.Verdict, p.gap.Witness, p.done = NotContained, w, true
}

// anyEnvelope is true of every valid object of the resource.
func (s *search) anyEnvelope() logic.Formula {
	return s.envelope(logic.And{logic.Kinds(logic.Object), logic.Has{Name: "name"}, logic.Prop{Name: "name", F: objectName}})
}

// simpleEnvelope is true of the simple objects of the resource, from which candidates are taken.
func (s *search) simpleEnvelope() logic.Formula {
	meta := logic.And{logic.Kinds(logic.Object), logic.Has{Name: "name"}, logic.Prop{Name: "name", F: logic.Or{oneValue("example"), objectName}}}
	fields := []string{"name"}
	if s.opts.Namespaced {
		meta = append(meta, logic.Has{Name: "namespace"}, logic.Prop{Name: "namespace", F: oneValue("default")})
		fields = append(fields, "namespace")
	}
	return s.envelope(append(meta, logic.Rest{Except: fields, F: logic.False}))
}

// envelope is true of objects of the resource with such metadata.
func (s *search) envelope(metadata logic.Formula) logic.Formula {
	return logic.And{
		logic.Kinds(logic.Object),
		logic.Has{Name: "apiVersion"},
		logic.Prop{Name: "apiVersion", F: oneValue(s.opts.apiVersion())},
		logic.Has{Name: "kind"},
		logic.Prop{Name: "kind", F: oneValue(s.opts.kindOrDefault())},
		logic.Has{Name: "metadata"},
		logic.Prop{Name: "metadata", F: metadata},
	}
}

func oneValue(v any) logic.Formula { return logic.Enum{Values: []any{v}} }

// objectName is true of names of objects (NameIsDNSSubdomain in k8s.io/apimachinery/pkg/api/validation).
var objectName = logic.And{
	logic.Kinds(logic.String),
	logic.Length{Min: 1, Max: 253},
	logic.Pattern{Expr: `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`},
}

// tries bounds the candidates that are confirmed for one gap.
const tries = 48

// confirmer runs candidates through the upstream code of both sides.
type confirmer struct {
	old, new *upstream.Validator
	s        *search
	objs     []map[string]any
	bare     *upstream.Validator
	bareErr  error
	exact    bool // the validators are exact
}

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
		s.bareCut = upstream.NewProjector(withoutValues(s.newProps), s.opts.upstreamOptions(&s.sides[1])).Share(s.sides[1].Node, &s.opts.Shared.compiled)
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
		w.Before, _ = valueAt(before.Stored, g.Path)
		w.After, _ = valueAt(after.Stored, g.Path)
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
	w.Ratcheted = !w.WritersOnly
	return ""
}
