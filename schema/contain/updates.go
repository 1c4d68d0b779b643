package contain

// Does a rule about updates restrict more than before? For example, an unchanged rule does if a new default makes an old value where there
// was none.

import (
	"slices"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/celrule"
	"sluice.dev/schema/contain/internal/logic"
)

// compareTransitions compares the rules of the new node that restrict updates. A rule restricts nothing new if the old node has it too,
// or its rules imply it by their form, and it sees the same values. There are two exceptions: updates correlate the values above in
// another way, or they find a default in place of a missing value.
func (w *walker) compareTransitions(o, n place) {
	if n.dark {
		return
	}
	lib := w.opts.sharedLibrary()
	for _, b := range n.node.AllOf { // no valid CRD has rules there
		if w.hasTransitions(b) && !slices.ContainsFunc(o.allOfBranches(), func(c *schema.Node) bool { return w.moved == 0 && len(w.fillings) == 0 && c.Hash() == b.Hash() }) {
			w.recordSuspect(o, n, Gap{Keyword: "allOf", Detail: "rules about updates", Harm: RefusedTransition}, logic.True)
		}
	}
	for i := range n.node.Rules {
		r := &n.node.Rules[i]
		parsed, err := lib.parseRule(r.Rule)
		switch {
		case err != nil || !parsed.UsesOldSelf():
			continue
		case w.sameTransition(o, n, r, parsed):
			w.traceProven(keywordRules, r.Rule, equalKeyword)
			continue
		case w.impliedUpdate(o, n, r, parsed):
			w.traceProven(keywordRules, r.Rule, updateImplied)
			continue
		}
		g := Gap{Keyword: keywordRules, Detail: r.Rule, Harm: RefusedTransition, After: r.Rule, Rule: i}
		if hasRule(o, r) {
			g.Before, g.Cause = r.Rule, w.causeOfUpdates(o, n, piece{keyword: keywordRules, detail: r.Rule, rule: r})
		}
		w.recordSuspect(o, n, g, logic.True)
	}
}

// causeOfUpdates names the change because of which a rule about updates that is the same on both sides restricts more: in what the rule
// reads, or in the values around it, which decide what an update finds as the old value.
func (w *walker) causeOfUpdates(o, n place, x piece) string {
	if c := w.actualCause(o, n, x); c != "" {
		return c
	}
	c := changes{}
	for i := len(w.above) - 1; i >= 0 && c.first == ""; i-- {
		a, b := w.above[i][0], w.above[i][1]
		if a.kind == declared && b.kind == declared {
			c.compareKeywords(w.publicPath()[:i], a.node, b.node)
		}
	}
	if c.first == "" {
		return "an update compares other values than before"
	}
	return c.first
}

// sameTransition reports whether the old node's rules say as much about updates.
func (w *walker) sameTransition(o, n place, r *schema.Rule, parsed *celrule.Rule) bool {
	return w.moved == 0 && len(w.fillings) == 0 && w.impliedByForm(o, n, r, parsed)
}

// bytesImplied is the number of bytes of an old rule in one unit of work.
const bytesImplied = 10

// impliedByForm reports whether the rules of the old node, by their form, imply the rule of the new one, and see the same values.
func (w *walker) impliedByForm(o, n place, r *schema.Rule, parsed *celrule.Rule) bool {
	if o.kind != declared || o.dark {
		return false
	}
	same := func() bool { return w.seesSame(o, n, parsed) }
	var olds []*celrule.Rule
	for i := range o.node.Rules {
		q := &o.node.Rules[i]
		other, err := w.opts.sharedLibrary().parseRule(q.Rule)
		optional := hasOptionalOldSelf(q)
		if err != nil || optional != hasOptionalOldSelf(r) || other.Transition(optional) && !parsed.Transition(optional) {
			continue // the API server may not evaluate it when it evaluates the new rule
		}
		if other.Canonical() == parsed.Canonical() && same() {
			return true
		}
		if !w.opts.Work.Charge(int64(len(q.Rule))/bytesImplied + 1) {
			return false
		}
		olds = append(olds, other)
	}
	scalar := slices.Contains([]string{"string", "integer", "number", "boolean"}, o.node.Type)
	return (scalar || len(olds) > 0) && parsed.ImpliedBy(olds, scalar) && same()
}

// allOfBranches are those of allOf, none if the place is not declared.
func (p place) allOfBranches() []*schema.Node {
	if p.kind != declared {
		return nil
	}
	return p.node.AllOf
}

// correlatesDifferently reports whether updates correlate the items or fields of o and n in different ways
// (k8s.io/apiserver/pkg/cel/common, CorrelatedObject).
func correlatesDifferently(o, n place) bool {
	if o.kind != declared || n.kind != declared {
		return false // no rule of one of them is one of the other's
	}
	return o.node.ListType != n.node.ListType || !slices.Equal(o.node.ListMapKeys, n.node.ListMapKeys) || o.node.MapType != n.node.MapType ||
		slices.ContainsFunc(n.node.ListMapKeys, func(key string) bool {
			a, b := o.node.Items.Property(key), n.node.Items.Property(key)
			return a == nil || b == nil || !schema.SameDefault(a, b)
		})
}

// hasTransitions reports whether the node, or a part of it, has a rule that mentions oldSelf.
func (w *walker) hasTransitions(n *schema.Node) bool {
	if n == nil {
		return false
	}
	if has, ok := w.transitions[n]; ok {
		return has
	}
	has := slices.ContainsFunc(n.Rules, func(r schema.Rule) bool {
		parsed, err := w.opts.sharedLibrary().parseRule(r.Rule)
		return err == nil && parsed.UsesOldSelf()
	})
	has = has || w.hasTransitions(n.Items) || w.hasTransitions(n.Additional) || slices.ContainsFunc(n.AllOf, w.hasTransitions) ||
		slices.ContainsFunc(n.Properties, func(c schema.Property) bool { return w.hasTransitions(c.Node) })
	if w.transitions == nil {
		w.transitions = map[*schema.Node]bool{}
	}
	w.transitions[n] = has
	return has
}

// seesSame reports whether the rule sees the same values in both nodes.
func (w *walker) seesSame(o, n place, parsed *celrule.Rule) bool {
	return o.hasMeta() == n.hasMeta() && parsed.SeesSame(o.node, n.node, n.hasMeta(), o.keep || o.whole || n.keep || n.whole)
}

// hasRule reports whether the old node has the rule word for word.
func hasRule(o place, r *schema.Rule) bool {
	return o.kind == declared && !o.dark && slices.ContainsFunc(o.node.Rules, func(q schema.Rule) bool { return q.Rule == r.Rule && hasOptionalOldSelf(&q) == hasOptionalOldSelf(r) })
}
