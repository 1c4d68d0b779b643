package contain

// At which places may the new schema be stricter? The walk compares both schemas place by place. For example, it leaves spec.a as a suspect
// if its maximum is lowered.

import (
	"slices"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/celrule"
	"sluice.dev/schema/contain/internal/logic"
)

// comparePlaces compares the old place o with the new place n, and all below them.
func (w *walker) comparePlaces(o, n place) {
	if o.kind == gone {
		return
	}
	if o.cacheKey() == n.cacheKey() && (w.moved == 0 && len(w.fillings) == 0 || !w.hasTransitions(n.node)) {
		w.traceProven("schema", "", equalSubtree)
		return
	}
	if !w.opts.Work.Charge(1) {
		return
	}
	switch n.kind {
	case declared:
	case gone:
		w.recordSuspect(o, n, Gap{Keyword: "properties", Harm: Pruned}, logic.True)
		return
	case anything:
		w.compareLostDefaults(o, n)
		return
	case emptied:
		w.compareDefaults(o, n)
		goal := logic.Not(w.new.acceptedAt(n))
		if w.provedLocally(o, goal) {
			w.traceProven("additionalProperties", "", impliedHere)
		} else {
			w.recordSuspect(o, n, Gap{Keyword: "additionalProperties", Harm: Pruned}, goal)
		}
		return
	}
	typed := w.compareTypes(o, n)
	w.compareDefaults(o, n)
	if n.node.Type == "" || !typed { // below a type that differs, more comparisons show nothing
		w.comparePieces(o, n)
		w.compareChildren(o, n)
	} else {
		w.compareKept(o, n)
	}
}

// compareKept is for places whose types differ, below which the walk does not go. It checks whether the new place prunes fields that
// the old one keeps. An object that is refused for its type also loses fields when it is read from storage.
func (w *walker) compareKept(o, n place) {
	if n.kind != declared || !o.mayBeType("object") || !n.mayBeType("object") {
		return // the gap of the type covers objects that become another type
	}
	names := declaredNames(o, n)
	if n.restPlace().kind != gone {
		for _, name := range names {
			if o.childPlace(name).kind != gone {
				w.withStep(o, n, walkStep{Step: Step{Field, name}}, func() { w.compareKept(o.childPlace(name), n.childPlace(name)) })
			}
		}
		return
	}
	w.withStep(o, n, walkStep{Step: Step{Kind: AnyKey}, except: names}, func() { w.comparePlaces(o.restPlace(), n.restPlace()) })
}

// compareTypes compares type and nullable. It returns true if the types of most values differ, so that a deeper comparison is useless.
func (w *walker) compareTypes(o, n place) bool {
	allowed := w.new.acceptedKinds(n.node)
	if w.sameTypes(o, n) {
		return false
	}
	if n.losesNull() {
		allowed = logic.Or{logic.Kinds(logic.Null), allowed}
	}
	found := false
	if goal := w.withoutLists(o, n, logic.Not(allowed)); w.provedLocally(o, goal) {
		w.traceProven("type", "", impliedHere)
	} else {
		found = w.recordType(o, n, goal)
	}
	if n.losesNull() {
		if goal := logic.Kinds(logic.Null); w.provedLocally(o, goal) {
			w.traceProven("nullable", "", impliedHere)
		} else if !found {
			w.recordSuspect(o, n, Gap{Keyword: "nullable", Harm: Pruned, Before: true, After: false}, goal)
		}
	}
	return found
}

// withoutLists leaves lists out of a goal where upstream, by an oversight, accepts them in place of a string with a format. Such lists are a
// separate gap, so that they hide nothing else.
func (w *walker) withoutLists(o, n place, goal logic.Formula) logic.Formula {
	if !w.old.letsListsThrough(o) {
		return goal
	}
	lists := logic.And{logic.Kinds(logic.Array), goal}
	after := formatOf(n)
	if after == o.node.Format {
		after = nil // something else refuses them
	}
	told := func(x suspect) bool {
		return x.gap.Detail == ListsLetThrough && slices.Equal(x.gap.Path, w.publicPath())
	}
	if !slices.ContainsFunc(w.suspects, told) && !w.provedLocally(o, lists) {
		w.recordSuspect(o, n, Gap{Keyword: "format", Detail: ListsLetThrough, Harm: Refused, Before: o.node.Format, After: after}, lists)
	}
	return logic.And{logic.Kinds(logic.AnyKind &^ logic.Array), goal}
}

// recordType records that another type is refused. It returns true if the old place accepts values of any type. Then the search of this
// suspect covers all below it.
func (w *walker) recordType(o, n place, goal logic.Formula) bool {
	g := Gap{Keyword: "type", Harm: Refused, Before: typeName(o), After: typeName(n)}
	if g.Before != nil && g.Before == g.After && o.node.Nullable { // only null is refused
		g.Before, g.After = o.node.Nullable, n.node.Nullable
	}
	w.recordSuspect(o, n, g, goal)
	if o.kind != anything && (o.kind != declared || o.node.Type != "" || o.node.IntOrString) || w.hasTransitions(n.node) {
		return false
	}
	if !w.opts.Work.Spent() {
		x := &w.suspects[len(w.suspects)-1]
		x.whole = logic.Not(w.new.acceptedAt(n))
		if !n.mayBeType("object") {
			x.loses = logic.And{logic.Kinds(logic.Object), logic.NumProps{Min: 1, Max: logic.Unbounded}}
		}
	}
	return true
}

// sameTypes reports whether the old schema accepts values of the same types, or of fewer. Then it traces that.
func (w *walker) sameTypes(o, n place) bool {
	if o.kind != declared || o.pos != n.pos || !n.node.Nullable && o.node.Nullable || n.losesNull() && !o.losesNull() {
		return false
	}
	bare := *n.node
	if bare.Nullable = o.node.Nullable; !w.sameFormula(w.old.acceptedKinds(o.node), w.new.acceptedKinds(&bare)) {
		return false
	}
	w.traceProven("type", "", equalKeyword)
	if n.losesNull() {
		w.traceProven("nullable", "", equalKeyword)
	}
	return true
}

// compareDefaults records properties for which the schemas fill in different defaults.
func (w *walker) compareDefaults(o, n place) {
	if n.kind != declared {
		n.node = &schema.Node{} // it fills nothing in
	}
	if o.kind != declared || len(w.path) == 0 || schema.SameDefault(o.node, n.node) {
		return
	}
	g := Gap{Keyword: "default", Harm: Redefaulted, Rule: -1, Path: w.publicPath()}
	if o.node.HasDefault {
		g.Before = o.node.Default
	}
	if n.node.HasDefault {
		g.After = n.node.Default
	}
	last := len(w.path) - 1
	if w.path[last].Kind != Field {
		w.compareNullDefaults(o, n, g)
		return
	}
	lacks := logic.And{logic.Kinds(logic.Object), logic.Lacks{Name: w.path[last].Name}}
	if w.provedLocally(w.above[last][0], lacks) {
		w.traceProven("default", "", impliedHere)
		return
	}
	w.suspects = append(w.suspects, suspect{gap: g, path: slices.Clone(w.path[:last]), local: lacks, old: o})
}

// compareLostDefaults records the defaults of an old place, and of all below it, where the new schema keeps anything: what was filled in stays
// missing from then on. For example, .spec.a has the default 1, and .spec only keeps unknown fields now.
func (w *walker) compareLostDefaults(o, n place) {
	if o.kind != declared || !w.opts.Work.Charge(1) {
		return
	}
	w.compareDefaults(o, n)
	w.eachPart(o, n, func(_ Step, o, n place) { w.compareLostDefaults(o, n) })
}

// compareNullDefaults compares the defaults of items of a list or values of a map, which only replace null. The old schema takes a null there
// for the default, so the search looks for the default, and puts null in its place. If the new schema has no default, it refuses a null in a
// list.
func (w *walker) compareNullDefaults(o, n place, g Gap) {
	if o.node.Nullable || !o.node.HasDefault {
		return
	}
	if n.kind == declared && !n.losesNull() && !n.node.Nullable {
		g.Harm = Refused
	}
	w.recordSuspect(o, n, g, oneValue(w.opts.sharedLibrary().withDefault(o.node)))
}

// comparePieces compares every keyword of the new node that restricts values.
func (w *walker) comparePieces(o, n place) {
	for _, x := range w.new.piecesAt(n) {
		if w.opts.Work.Spent() {
			return
		}
		goal := logic.Not(x.formula)
		if x.keyword == "x-kubernetes-list-type" && n.isSetOfCompounds() && !o.isSetOfCompounds() {
			goal = logic.Or{goal, someCompound} // nothing can be applied to such a list, equal items or not
		}
		if slices.Contains(junctors, x.keyword) { // a branch with a format lets lists through as well, or does not
			goal = w.withoutLists(o, n, goal)
		}
		switch {
		case w.sayTheSame(o, x) || w.sameKeys(o, n, x):
			w.traceProven(x.keyword, x.detailOrIndex(), equalKeyword)
			continue
		case x.rule != nil && w.trueWithoutFields(o, n, x.rule):
			w.traceProven(x.keyword, x.detailOrIndex(), ruleOfNoField)
			continue
		case w.provedLocally(o, goal):
			w.traceProven(x.keyword, x.detailOrIndex(), impliedHere)
			continue
		case x.rule != nil && w.impliedPiece(o, n, x.rule):
			w.traceProven(x.keyword, x.detailOrIndex(), ruleByForm)
			continue
		}
		g := Gap{Keyword: x.keyword, Detail: x.detail, Harm: Refused, After: x.before, Before: w.counterpart(o, x), Rule: -1}
		if x.rule != nil {
			g.Rule = x.index
		}
		g.Cause = w.actualCause(o, n, x)
		if w.recordSuspect(o, n, g, goal); !w.opts.Work.Spent() {
			w.suspects[len(w.suspects)-1].where = x.detailOrIndex()
		}
	}
	w.compareTransitions(o, n)
}

// junctors are the keywords whose branches are schemas of their own.
var junctors = []string{"allOf", "anyOf", "oneOf", "not"}

// impliedPiece reports whether the old rules imply a new one on creation.
func (w *walker) impliedPiece(o, n place, r *schema.Rule) bool {
	parsed, err := w.opts.sharedLibrary().parseRule(r.Rule)
	return err == nil && (w.impliedByForm(o, n, r, parsed) || w.impliedByForm(o, n, r, parsed.WithoutGuards(n.node)))
}

// trueWithoutFields reports whether a rule is true of all old values because it only speaks of fields that none of them has: the old schema
// does not keep the fields, and the new one does not fill them in.
func (w *walker) trueWithoutFields(o, n place, r *schema.Rule) bool {
	parsed, err := w.opts.sharedLibrary().parseRule(r.Rule)
	if err != nil || parsed.UsesOldSelf() || len(w.fillings) > 0 {
		return false
	}
	return parsed.TrueWithout(&storedValues{o, n})
}

// storedValues are the values of an old place that are read at a new one.
type storedValues struct{ old, new place }

// placesBelow follows a path to objects. It returns false if a list on the way may be null, or a value filled in.
func (v *storedValues) placesBelow(path []string) (o, n place, ok bool) {
	o, n = v.old, v.new
	for i, step := range path {
		if step == celrule.Item {
			if !o.isOfType("array") || !n.isOfType("array") || i > 0 && (o.node.Nullable || n.node.Nullable) {
				return o, n, false
			}
			o, n = o.itemPlace(), n.itemPlace()
		} else {
			if !o.isOfType("object") || !n.isOfType("object") {
				return o, n, false
			}
			o, n = o.childPlace(step), n.childPlace(step)
		}
		if o.kind != declared || n.kind != declared || n.node.HasDefault {
			return o, n, false
		}
	}
	return o, n, o.isOfType("object") && n.isOfType("object")
}

// Lacks implements [celrule.Stored]: the old schema does not keep the field, and the new one does not fill it in. has() is false of null, too.
func (v *storedValues) Lacks(path []string, field string) bool {
	o, n, ok := v.placesBelow(path)
	if !ok || o.childPlace(field).kind != gone {
		return false
	}
	c := n.node.Property(field)
	return c == nil || !c.HasDefault
}

// Has implements [celrule.Stored].
func (v *storedValues) Has(path []string, field string) bool {
	o, n, ok := v.placesBelow(path)
	return ok && (len(path) == 0 || !o.node.Nullable && !n.node.Nullable) && o.node.IsRequired(field) && o.node.Property(field) != nil && !o.node.Property(field).Nullable && n.node.Property(field) != nil
}

// counterpart returns the value of the same keyword in the old node.
func (w *walker) counterpart(o place, x piece) any {
	if o.kind != declared {
		return nil
	}
	for _, y := range w.old.piecesAt(o) {
		if y.keyword == x.keyword && y.detail == x.detail {
			return y.before
		}
	}
	return nil
}

// compareChildren compares the properties that one side names, all others, and the items.
func (w *walker) compareChildren(o, n place) {
	w.eachPart(o, n, func(s Step, a, b place) {
		switch {
		case s.Kind == AnyKey && !o.mayBeType("object"):
		case s.Kind == AnyItem && !o.mayBeType("array") && !w.old.letsListsThrough(o):
		default:
			w.comparePlaces(a, b)
		}
	})
}
