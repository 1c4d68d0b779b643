package contain

// Does a rule about updates follow from the old rules? For example, self >= oldSelf follows from self == oldSelf for an integer.

import (
	"iter"
	"slices"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/celrule"
	"sluice.dev/schema/contain/internal/logic"
)

// maxUpdateRules bounds the old rules that a proof about a new one starts from.
const maxUpdateRules = 64

// impliedUpdate reports whether a rule about updates of the new schema allows every update that the old schema allows. It does if the
// rule, as a formula about both states, follows from the old schema and its rules about updates. impliedUpdate asks that at the rule's
// place first, then at the objects around it, whose rules may mention the same fields.
func (w *walker) impliedUpdate(o, n place, r *schema.Rule, parsed *celrule.Rule) bool {
	if w.moved > 0 || o.dark || n.dark {
		return false
	}
	for at := range w.surroundingObjects(o, n) {
		switch {
		case len(w.fillings) == 0:
			if w.frozenByRules(at.o, n, at.path, r, parsed) || w.followsFrom(at.o, at.n, at.path, r, parsed) {
				return true
			}
		case at.depth < w.fillings[0].from: // only the objects around it show whether there is a value here
			if w.followsFrom(at.o, at.n, at.path, r, parsed) {
				return true
			}
		}
	}
	return false
}

// surroundings are the walk's place or objects around it, with the length of the path to them, and the names of the fields from there.
type surroundings struct {
	o, n  place
	depth int
	path  []string
}

// surroundingObjects yields the walk's place and the objects around it, up to a list or a map, as long as both schemas declare them.
func (w *walker) surroundingObjects(o, n place) iter.Seq[surroundings] {
	return func(yield func(surroundings) bool) {
		var path []string
		for i := len(w.path); i >= 0; i-- {
			if i < len(w.path) {
				s := w.path[i]
				if s.Kind != Field {
					return
				}
				o, n = w.above[i][0], w.above[i][1]
				path = append([]string{s.Name}, path...)
			}
			if o.kind != declared || n.kind != declared || !yield(surroundings{o, n, i, path}) {
				return
			}
		}
	}
}

// frozenByRules reports whether the old rules never let the value at o change, and the rule is true of every unchanged value. The rule is at
// here; the path leads there from o.
func (w *walker) frozenByRules(o, here place, path []string, r *schema.Rule, parsed *celrule.Rule) bool {
	if o.hasMeta() || !slices.ContainsFunc(o.node.Rules, func(q schema.Rule) bool {
		other, err := w.opts.sharedLibrary().parseRule(q.Rule)
		return err == nil && !hasOptionalOldSelf(&q) && other.Freezes()
	}) {
		return false
	}
	for _, name := range path {
		if !celrule.ToldApart(o.node) {
			return false
		}
		if o = o.childPlace(name); o.kind != declared || o.preservesUnknown() {
			return false
		}
	}
	unchanged, ok := parsed.Unchanged(hasOptionalOldSelf(r))
	if !ok || !parsed.SameWhereEqual(o.node) {
		return false
	}
	if !hasOptionalOldSelf(r) && parsed.AllowsUnchanged(here.node) && !w.opts.Converted { // what the new schema fills in, it fills in on both sides
		return true
	}
	return w.provedLocally(o, logic.Not(celrule.Translate(unchanged, w.opts.scopeOf(here, false))))
}

// followsFrom reports whether the rule follows from the statements of the old schema, at o and below, about the two states and the
// update. The path leads from o and n to the rule.
func (w *walker) followsFrom(o, n place, path []string, r *schema.Rule, parsed *celrule.Rule) bool {
	if len(path) > 0 && !w.hasTransitions(o.node) {
		return false
	}
	return w.followsAcrossSchemas(stateful{o, o}, stateful{n, n}, true, path, r, parsed)
}

// stateful has the places of the two states of an update, whose defaults may differ.
type stateful struct{ after, before place }

// followsAcrossSchemas is followsFrom where the stored state has other schemas than the written one. It uses the old rules about updates if told to.
func (w *walker) followsAcrossSchemas(o, n stateful, rules bool, path []string, r *schema.Rule, parsed *celrule.Rule) bool {
	fs, ok := w.refusedUpdates(o, n, rules, path, r, parsed)
	return ok && w.local.Solve(1, fs).None
}

// refusedUpdates is true of the updates, as objects with both states, that the old schema allows and the rule refuses; false if that cannot be
// said.
func (w *walker) refusedUpdates(o, n stateful, rules bool, path []string, r *schema.Rule, parsed *celrule.Rule) (logic.And, bool) {
	goal, ok := w.aboutPair(n, path, r, parsed)
	if !ok {
		return nil, false
	}
	facts := logic.And{
		logic.Kinds(logic.Object),
		logic.Has{Name: celrule.After},
		logic.Has{Name: celrule.Before},
		logic.Prop{Name: celrule.After, F: w.old.acceptedAt(o.after)},
		logic.Prop{Name: celrule.Before, F: w.old.acceptedAt(o.before)},
	}
	if len(path) == 0 && hasOptionalOldSelf(r) { // a refusal on creation is a separate gap
		facts = append(facts, logic.Prop{Name: celrule.After, F: w.new.ruleFormula(r, n.after)})
	}
	if rules {
		facts = w.updateFacts(o, o.after, nil, facts)
	}
	return append(facts, logic.Not(goal)), len(facts) <= maxUpdateRules
}

// updateFacts appends the statements of the rules about updates, at p and below, about pairs of values at top. The path leads from top
// to p. A missing rule makes a proof harder, never wrong.
func (w *walker) updateFacts(top stateful, p place, path []string, facts logic.And) logic.And {
	if p.kind != declared || p.dark || !w.hasTransitions(p.node) || len(facts) > maxUpdateRules {
		return facts
	}
	for i := range p.node.Rules {
		r := &p.node.Rules[i]
		parsed, err := w.opts.sharedLibrary().parseRule(r.Rule)
		if err != nil || !parsed.UsesOldSelf() {
			continue
		}
		if f, ok := w.aboutPair(top, path, r, parsed); ok {
			facts = append(facts, f)
		}
	}
	for _, c := range p.node.Properties {
		facts = w.updateFacts(top, p.childPlace(c.Name), append(slices.Clip(path), c.Name), facts)
	}
	return facts
}

// aboutPair translates a rule about updates, to which the path leads from p, into a formula about pairs of values of p.
func (w *walker) aboutPair(p stateful, path []string, r *schema.Rule, parsed *celrule.Rule) (logic.Formula, bool) {
	rule, ok := parsed.OfPair(hasOptionalOldSelf(r), path...)
	if !ok {
		return nil, false
	}
	f := celrule.Translate(rule, celrule.Scope{Spine: celrule.PairOf(p.after.node, p.before.node, p.after.hasMeta()), Checker: w.opts.solverStrings(), Work: w.opts.Work})
	if p.after.node.Nullable { // rules are evaluated only if there are both a value and an old value
		null := logic.Kinds(logic.Null)
		f = logic.Or{logic.Prop{Name: celrule.After, F: null}, logic.Prop{Name: celrule.Before, F: null}, f}
	}
	return f, true
}
