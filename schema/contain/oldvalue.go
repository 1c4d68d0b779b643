package contain

// Which rules about updates does a default of another version break? For example, self.a == oldSelf.a refuses an update if the old value of
// a is a default that the writer does not send.

import (
	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/celrule"
)

// Reading has the schemas of a version for the old values of updates that another version reads: they are those of the version, with the
// defaults of the reader in place of its own, and without fields that no stored object has.
type Reading struct {
	// Old is for the old version and the old reader, New for the new ones.
	Old, New Side
}

// DecideOldValues returns the rules about updates of new that may refuse an update that old allows, though they allow it where old and
// new read the stored object themselves: the object is read by another version, and its defaults are filled in in the old value alone.
// A rule is no gap if it stands in old and sees the same written values, and sees the same old values in each reading; or if it is true
// whatever the old value is. The gaps are Unknown, and in the order of the walk.
func DecideOldValues(old, new Side, readings []Reading, opts Options) []Gap {
	o := &opts
	if o.Work == nil {
		o.Work = NewWork(orDefault(o.Budget, DefaultBudget))
	}
	moved := o.rulesWithMovedValues(readings)
	var out []Gap
	types, known := onlyTypes(old, new)
	w := o.newWalker()
	w.eachUpdateRule(rootPlaceOf(old), rootPlaceOf(new), false, func(p, n place, i int, parsed *celrule.Rule, changed bool) {
		r := &n.node.Rules[i]
		elsewhere := moved[ruleAt{w.publicPath().String(), i}] || changed && hasOptionalOldSelf(r)
		if !elsewhere && w.sameTransition(p, n, r, parsed) || known && w.allowsAll(p, n, types, elsewhere, r, parsed) {
			return
		}
		out = append(out, Gap{
			Path: w.publicPath(), Keyword: keywordRules, Detail: r.Rule, After: r.Rule, Harm: RefusedTransition, Verdict: Unknown, Rule: i,
			Reason: "the rule compares with an old value in which other defaults are filled in than before, and no update was found that it refuses",
		})
	})
	if o.Work.Spent() {
		out = append(out, Gap{Keyword: "schema", Verdict: Unknown, Reason: TooMuch, Rule: -1})
	}
	return out
}

// ruleAt is a rule of the schema at a path.
type ruleAt struct {
	path string
	rule int
}

// rulesWithMovedValues returns the rules that see other old values in a new reading than in the old one.
func (o *Options) rulesWithMovedValues(readings []Reading) map[ruleAt]bool {
	moved := map[ruleAt]bool{}
	for _, r := range readings {
		w := o.newWalker()
		w.eachUpdateRule(rootPlaceOf(r.Old), rootPlaceOf(r.New), false, func(p, n place, i int, parsed *celrule.Rule, changed bool) {
			if w.moved > 0 || len(w.fillings) > 0 || changed && hasOptionalOldSelf(&n.node.Rules[i]) || p.kind != declared ||
				!parsed.SeesSameOld(p.node, n.node, n.hasMeta(), p.keep || p.whole || n.keep || n.whole) {
				moved[ruleAt{w.publicPath().String(), i}] = true
			}
		})
	}
	return moved
}

// rootPlaceOf is the place of the object itself, with all embedded resources checked: old values are of ordinary
// updates.
func rootPlaceOf(s Side) place { return place{node: s.Node, pos: atRoot} }

// eachUpdateRule calls f for each rule about updates of the new place and below. changed reports whether any default differs, of the value or
// of those around it.
func (w *walker) eachUpdateRule(o, n place, changed bool, f func(o, n place, i int, parsed *celrule.Rule, changed bool)) {
	if n.kind != declared || n.dark || !w.hasTransitions(n.node) || o.kind == gone && len(w.fillings) == 0 || !w.opts.Work.Charge(1) {
		return
	}
	for i := range n.node.Rules {
		if parsed, err := w.opts.sharedLibrary().parseRule(n.node.Rules[i].Rule); err == nil && parsed.UsesOldSelf() {
			f(o, n, i, parsed, changed)
		}
	}
	w.eachPart(o, n, func(s Step, a, b place) {
		w.eachUpdateRule(a, b, changed || s.Kind == Field && fillsElse(a, b), f)
	})
}

// fillsElse reports whether the two places fill in different defaults. A place that no schema declares fills in none.
func fillsElse(o, n place) bool {
	if o.kind != declared || n.kind != declared {
		return o.kind == declared && o.node.HasDefault || n.kind == declared && n.node.HasDefault
	}
	return !schema.SameDefault(o.node, n.node)
}

// onlyTypes are the roots of both schemas with their types alone; false if they cannot be made.
func onlyTypes(old, new Side) (types [2]place, ok bool) {
	for i, s := range []Side{old, new} {
		side, err := NewSide(withoutRules(withoutDemands(s.Props)))
		if err != nil {
			return types, false // cannot be: it is a part of a schema that passed
		}
		types[i] = rootPlaceOf(side)
	}
	return types, true
}

// allowsAll reports whether the rule allows all updates that the old schema allows, with any old value of the right types, because nothing
// else is known of it. The types are the roots of both schemas with their types alone. If the rule is moved, the old rules compared with
// another old value, and say nothing.
func (w *walker) allowsAll(o, n place, types [2]place, moved bool, r *schema.Rule, parsed *celrule.Rule) bool {
	if w.moved > 0 || o.dark || n.dark {
		return false
	}
	for at := range w.surroundingObjects(o, n) {
		if !moved && len(w.fillings) == 0 && w.frozenByRules(at.o, n, at.path, r, parsed) {
			return true
		}
		was, now := types[0], types[1]
		for _, s := range w.path[:at.depth] {
			was, now = was.stepPlace(s.Step), now.stepPlace(s.Step)
		}
		if moved {
			was = now
		}
		if was.kind == declared && now.kind == declared && w.followsAcrossSchemas(stateful{at.o, was}, stateful{at.n, now}, !moved, at.path, r, parsed) {
			return true
		}
	}
	return false
}
