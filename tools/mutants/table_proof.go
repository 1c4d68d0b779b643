package main

// proofFaults are those of the comparison: the walk over two schemas, the search for witnesses, what is made of both.
var proofFaults = []fault{
	{
		file: "schema/contain/cause.go", old: `if c.find(path, o.node, n.node, names, 0); c.first == "" && names != nil {`, new: `if path = nil; names != nil && false {`,
		broken: "a keyword that stands alike on both sides is blamed",
	},
	{
		file: "schema/contain/walk.go", old: `return w.local.Solve(1, w.old.accepts(o), goal).None`, new: `return len(w.local.Solve(1, w.old.accepts(o), goal).Models) == 0`,
		broken: "a local proof that gave up is taken for a proof",
	},
	{
		file: "schema/contain/walk.go", old: `if o.kind == gone {
		return`, new: `if o.kind == gone || n.kind == gone {
		return`,
		broken: "what the new schema prunes is passed over",
	},
	{
		file: "schema/contain/contain.go", old: `w.cut = TooMuch`, new: `w.cut = ""`,
		broken: "a budget that is spent on the way to a place is taken for a proof",
	},
	{
		file: "schema/contain/walk.go", old: `	if n.pos == atProperty && !n.node.Nullable {
		if goal`, new: `	if n.pos == atItem && !n.node.Nullable {
		if goal`,
		broken: "nullable that is removed is not noticed",
	},
	{
		file: "schema/default.go", old: `return o.HasDefault == n.HasDefault && (reflect`, new: `return !n.HasDefault || (reflect`,
		broken: "a default that is removed is not noticed",
	},
	{
		file: "schema/contain/walk.go", old: `w.walk(o.item(), n.item())`, new: `w.walk(n.item(), n.item())`,
		broken: "items is not compared",
	},
	{
		file: "schema/contain/walk.go", old: `w.suspects[len(w.suspects)-1].whole = logic.Not(w.new.accepts(n))`, new: `found = true`,
		broken: "what the walk passed over below a type that differs is not proven",
	},
	{
		file: "schema/contain/walk.go", old: `if o.may("array") || w.old.letsListsThrough(o) {`, new: `if o.may("array") {`,
		broken: "the items of lists that pass for strings with a format are not compared",
	},
	{
		file: "schema/contain/walk.go", old: `if n.node.Type == "" || !typed {`, new: `if !typed {`,
		broken: "below a place that says no type nothing is compared",
	},
	{
		file: "schema/contain/search.go", old: `p.reason = "stopped: " + err.Error()
		return true`, new: `return false`,
		broken: "a context that is done is taken for a proof",
	},
	{
		file: "schema/contain/search.go", old: `p.reason = TooMuch
		return true`, new: `return false`,
		broken: "the spent budget of the whole comparison is taken for a proof",
	},
	{
		file: "schema/contain/search.go", old: `return !r.None
}`, new: `return len(r.Models) > 0
}`,
		broken: "Unknown is taken for Contained: a search that gave up counts as a proof",
	},
	{
		file: "schema/contain/search.go", old: `if !r.None {
		return r
	}
	p.gap.OddAlone = true // the remaining`, new: `if true {
		return r
	}
	p.gap.OddAlone = true // the remaining`,
		broken: "what holds for objects with simple metadata is taken to hold for all",
	},
	{
		file: "schema/contain/search.go", old: `return nil, false, "the new schema accepts the candidates"`, new: `return w, true, ""`,
		broken: "a witness that the new schema accepts is reported",
	},
	{
		file: "schema/contain/search.go", old: `if len(before.Errors) > 0 {`, new: `if len(before.Errors) > 9 {`,
		broken: "a witness that the old schema refuses is reported",
	},
	{
		file: "schema/contain/search.go", old: `if !matchesPath(g.Path, w.PrunedPaths) {`, new: `if len(w.PrunedPaths) > 9 {`,
		broken: "a witness of which the new schema drops nothing is reported as pruned",
	},
	{
		file: "schema/contain/search.go", old: `c.new.TouchUpdate(ctx, stored, c.new.Ratchets())`, new: `c.new.TouchUpdate(ctx, stored, false)`,
		broken: "ratcheting is ignored: what it tolerates is told as stuck",
	},
	{
		file: "schema/contain/search.go", old: `w.WritersOnly = true
		return ""`, new: `return ""`,
		broken: "an object whose stored form is accepted is told as stuck",
	},
	{
		file: "schema/contain/contain.go", old: `if g.Verdict == NotContained || r.Verdict == Contained {`, new: `if g.Verdict == NotContained {`,
		broken: "Unknown is taken for Contained",
	},
	{
		file: "schema/contain/contain.go", old: `if s.cut != "" {`, new: `if s.cut != "" && len(r.Gaps) > 0 {`,
		broken: "a comparison that was cut short is taken for Contained",
	},
	{
		file: "schema/contain/contain.go", old: `w.cut = strange(old.Node, new.Node)`, new: `w.cut = strange(old.Node, old.Node)`,
		broken: "keywords of the new schema that are not modelled are overlooked",
	},
	{
		file: "schema/contain/patterns.go", old: `case regular.Unknown:
			return nil, false`, new: `case regular.Unknown:
			return nil, true`,
		broken: "an automaton that grew too large is taken for a proof that no string matches",
	},
	{
		file: "schema/contain/patterns.go", old: `regular.LengthBetween(m.length.Min, m.length.Max)`, new: `regular.LengthBetween(m.length.Min, max(m.length.Min, m.length.Max-1))`,
		broken: "the longest strings that maxLength allows are not looked at",
	},
	{
		file: "schema/contain/transition.go", old: `err != nil || r.Refused() {
		return nil
	}
	r, err := judge`, new: `err != nil && r.Refused() {
		return nil
	}
	r, err := judge`,
		broken: "an update that the old schema refuses too is reported as a witness",
	},
	{
		file: "schema/contain/updates.go", old: ` || !slices.Equal(o.node.ListMapKeys, n.node.ListMapKeys) || o.node`, new: ` || o.node`,
		broken: "that list-map keys decide what oldSelf is, is forgotten",
	},
	{
		file: "schema/contain/updates.go", old: `optional(q) != optional(r) || `, new: ``,
		broken: "a transition rule that loses optionalOldSelf is taken for the same",
	},
	{
		file: "schema/contain/updates.go", old: `parsed.ImpliedBy(olds, false) && same()`, new: `parsed.ImpliedBy(olds, false)`,
		broken: "a rule is taken for implied though its fields are of other types",
	},
	{
		file: "schema/contain/internal/celrule/implied.go", old: `return along || scalar && across
	case a.op == "=="`, new: `return along || scalar && across
	case a.op != ""`,
		broken: "a comparison is taken to imply any other",
	},
	{
		file: "schema/contain/internal/celrule/scope.go", old: `if n.Format != "" { // if`, new: `if false { // if`,
		broken: "that lists pass for strings with a format, which rules do not take, is forgotten",
	},
	{
		file: "schema/contain/search.go", old: `stored, _ = AsStored(stored).(map[string]any)
	again`, new: `again`,
		broken: "1.0 is taken to stay 1.0 in storage",
	},
	{
		file: "schema/contain/search.go", old: `fs = append(fs, s.old.written(s.oldRoot))`, new: `_ = fs`,
		broken: "values that nobody writes are tried first",
	},
	{
		file: "schema/contain/transition.go", old: `Witness{Object: obj, Stuck: true, Errors`, new: `Witness{Object: obj, Errors`,
		broken: "an object that no update passes any more is told as an update that is refused",
	},
	{
		file: "schema/contain/internal/celrule/sees.go", old: `!filledAlike(a.node, name, x.node, y.node) || `, new: ``,
		broken: "a transition rule is taken for the same though the default of what it speaks of changed",
	},
	{
		file: "schema/contain/internal/celrule/sees.go", old: `|| o.IsRequired(name) && !field.HasDefault`, new: `|| !field.HasDefault`,
		broken: "a rule is taken for the same though a new default fills in what it looks at",
	},
	{
		file: "schema/contain/internal/celrule/sees.go", old: `o.IsRequired(name) && !field.HasDefault`, new: `o.IsRequired(name)`,
		broken: "a required field that is filled in is taken to be in every object",
	},
	{
		file: "schema/contain/strip.go", old: `XListMapKeys: p.XListMapKeys, XListType: p.XListType, `, new: ``,
		broken: "rules alone are asked without the list keys by which oldSelf is found",
	},
	{
		file: "schema/contain/probe.go", old: `return out[:min(len(out), maxProbes)]`, new: `return out[:0]`,
		broken: "no special cases are tried against a rule that is not understood",
	},
	{
		file: "schema/contain/blame.go", old: `ok && (rest == "" || !plain(rest[:1]) || strings.HasSuffix(prefix, "]")) && matchAt`, new: `ok && matchAt`,
		broken: "what is said about replicasMax is taken to be about replicas",
	},
	{
		file: "schema/contain/blame.go", old: `path = append(path, Step{Field, g.Detail})`, new: `path = append(path, Step{AnyKey, ""})`,
		broken: "any missing property is taken for the one that became required",
	},
	{
		file: "schema/contain/internal/celrule/sees.go", old: `if a.whole || b.whole {`, new: `if false {`,
		broken: "a rule that compares whole values is taken to see nothing but the fields that it mentions",
	},
	{
		file: "schema/contain/internal/celrule/sees.go", old: `!filledAlike(o, p.Name, p.Node, c) || `, new: ``,
		broken: "what is filled in below a value that a rule uses as a whole is passed over",
	},
	{
		file: "schema/contain/internal/celrule/sees.go", old: `o.Property(p.Name) == nil && (p.Node.HasDefault || keep`, new: `o.Property(p.Name) == nil && (keep`,
		broken: "a new field that is filled in is taken for none in a value that a rule uses as a whole",
	},
	{
		file: "schema/contain/updates.go", old: `return w.moved == 0 && len(w.fillings) == 0 && w.impliedByForm(o, n, r, parsed)`, new: `return w.moved == 0 && w.impliedByForm(o, n, r, parsed)`,
		broken: "an unchanged rule about updates is passed over though a new default makes an old value where there was none",
	},
	{
		file: "schema/contain/updates.go", old: `return a == nil || b == nil || !schema.SameDefault(a, b)`, new: `return a == nil || b == nil`,
		broken: "a key of a list that is filled in is taken to change no update",
	},
	{
		file: "schema/contain/walk.go", old: `(w.moved == 0 && len(w.fillings) == 0 || !w.hasTransitions(n.node))`, new: `(w.moved == 0 || !w.hasTransitions(n.node))`,
		broken: "what is equal is passed over though an object around it is filled in",
	},
	{
		file: "schema/contain/implied.go", old: `case i < w.fillings[0].from:`, new: `case i <= w.fillings[0].from:`,
		broken: "whether a value is filled in is judged without the object around it",
	},
	{
		file: "schema/contain/fill.go", old: `out[i].below = true`, new: `out[i].below = false`,
		broken: "the items of a list that is filled in are taken for what is there",
	},
	{
		file: "schema/contain/search.go", old: `w, alone = c.unequal(ctx, p.suspect, w, alone)`, new: `_, alone = c.unequal(ctx, p.suspect, w, alone)`,
		broken: "objects with unknown fields are taken to be tolerated like others",
	},
	{
		file: "schema/contain/search.go", old: `p.models = append(s.few(1, s.formulas(p, p.loses)...), p.models...)`, new: `_ = p.loses`,
		broken: "that a value of another type is pruned is not looked for",
	},
	{
		file: "schema/contain/walk.go", old: `w.compareKept(o, n)
	}
}`, new: `_ = w.compareKept
	}
}`,
		broken: "below a type that differs nothing is taken to be pruned",
	},
	{
		file: "schema/contain/search.go", old: `c.objs = append(c.objs, r.Stored)`, new: `_ = r.Stored`,
		broken: "what is filled in before an object is stored is unknown to the schema that judges it then",
	},
	{
		file: "schema/contain/implied.go", old: `if w.moved > 0 || o.kind != declared`, new: `if o.kind != declared`,
		broken: "a rule about updates follows from one that sees other old values",
	},
	{
		file: "schema/contain/implied.go", old: `if !ok || !parsed.SameWhereEqual(o.node) {`, new: `if !ok {`,
		broken: "what is equal in CEL is taken to be the same",
	},
	{
		file: "schema/contain/search.go", old: `w.WritersOnly = !plain.Refused()`, new: `w.WritersOnly = plain.Refused()`,
		broken: "a rule that tolerates what is stored is said to need ratcheting",
	},
	{
		file: "schema/contain/fate.go", old: `n.preserves() || n.node.Embedded || n.node.AdditionalBool != nil {`, new: `n.node.Embedded || n.node.AdditionalBool != nil {`,
		broken: "objects with unknown fields are proven to equal themselves",
	},
	{
		file: "schema/contain/fate.go", old: `if p.rule != "" && (err != nil || parsed.UsesOldSelf()) {
		return false`, new: `if p.rule == "?" && (err != nil || parsed.UsesOldSelf()) {
		return false`,
		broken: "rules that see the stored value are taken to be ratcheted",
	},
	{
		file: "schema/contain/fate.go", old: `return !unreadable || !s.seenByUpdates(g.Path)`, new: `return true`,
		broken: "values that CEL cannot read are taken to be ratcheted below rules about updates",
	},
	{
		file: "schema/contain/fate.go", old: `if len(g.Path) == 0 || g.Path[0]`, new: `if len(g.Path) == 0 {
		return true
	}
	if g.Path[0]`,
		broken: "what is wrong with the object itself is taken to be ratcheted",
	},
	{
		file: "schema/contain/fate.go", old: `p.spared = s.none(fs); p.spared`, new: `p.spared = true; p.spared`,
		broken: "every object is taken to fare as well as a witness that is in no trouble",
	},
	{
		file: "schema/contain/cause.go", old: `!w.proved(o.item(), logic.And{logic.Kinds(logic.Object), logic.Lacks{Name: key}})`, new: `n.node.Items.Property(key) == nil`,
		broken: "what is filled in for a key is taken to make no difference to items that lack it",
	},
	{
		file: "schema/contain/transition.go", old: `if len(x.about(r.Errors)) == 0 {
		return nil
	}
	return &Witness{Object: after`, new: `if len(r.Errors) == 0 {
		return nil
	}
	return &Witness{Object: after`,
		broken: "an update that is refused for any reason shows a rule about updates",
	},
	{
		file: "schema/contain/internal/celrule/cardinality.go", old: `most--`, new: `most += 0`,
		broken: "a sum that must be less than a constant may be equal to it",
	},
}
