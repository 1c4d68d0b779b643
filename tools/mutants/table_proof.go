package main

// proofFaults are those of the comparison: the walk over two schemas, the search for witnesses, what is made of both.
// A fault that loses a proof makes checks undecided. One that proves too much is the worst that can
// happen, because nobody would notice it.
var proofFaults = []fault{
	{
		in: "schema/contain.(*walker).actualCause", find: `if c.findChange(path, o.node, n.node, names, 0); c.first == "" && names != nil {`,
		put:    "if path = nil; names != nil && false {",
		broken: "a keyword that stands alike on both sides is blamed",
	},
	{
		in: "schema/contain.(*walker).provedLocally", find: "return w.local.Solve(1, w.old.acceptedAt(o), goal).None",
		put:    "return len(w.local.Solve(1, w.old.acceptedAt(o), goal).Models) == 0",
		broken: "a local proof that gave up is taken for a proof",
	},
	{
		in: "schema/contain.(*walker).comparePlaces", find: "o.kind == gone", put: "o.kind == gone || n.kind == gone",
		broken: "what the new schema prunes is passed over",
	},
	{
		in: "schema/contain.newComparison", find: "w.cut = TooMuch", put: `w.cut = ""`,
		broken: "a budget that is spent on the way to a place is taken for a proof",
	},
	{
		in: "schema/contain.place.losesNull", find: "p.pos == atItem && p.node.HasDefault", put: "false",
		broken: "a default of items that replaces null is not noticed",
	},
	{
		in: "schema/contain.(*walker).compareNullDefaults", find: "o.node.Nullable || !o.node.HasDefault", put: "true",
		broken: "another default of items is not noticed",
	},
	{
		in: "schema/contain.(*walker).compareTypes", find: "if n.losesNull() { if goal",
		put:    "if n.pos == atItem && !n.node.Nullable { if goal",
		broken: "nullable that is removed is not noticed",
	},
	{
		in: "schema.SameDefault", find: "return o.HasDefault == n.HasDefault && (reflect", put: "return !n.HasDefault || (reflect",
		broken: "a default that is removed is not noticed",
	},
	{in: "schema/contain.(*walker).eachPart", call: "o.itemPlace", answers: "n.itemPlace()", broken: "items is not compared"},
	{
		in: "schema/contain.(*walker).recordType", find: "x.whole = logic.Not(w.new.acceptedAt(n))",
		put:    "x.whole = nil",
		broken: "what the walk passed over below a type that differs is not proven",
	},
	{
		in: "schema/contain.(*walker).compareChildren", without: "letsListsThrough",
		broken: "the items of lists that pass for strings with a format are not compared",
	},
	{in: "schema/contain.(*walker).comparePlaces", without: `n.node.Type == ""`, broken: "below a place that says no type nothing is compared"},
	{
		in: "schema/contain.(*search).solvePending", find: `p.reason = "stopped: " + err.Error(); return true`, put: "return false",
		broken: "a context that is done is taken for a proof",
	},
	{
		in: "schema/contain.(*search).solvePending", find: "p.reason = TooMuch; return true", put: "return false",
		broken: "the spent budget of the whole comparison is taken for a proof",
	},
	{
		in: "schema/contain.(*search).solvePending", find: "return !r.None", put: "return len(r.Models) > 0",
		broken: "Unknown is taken for Contained: a search that gave up counts as a proof",
	},
	{
		in: "schema/contain.(*search).findCandidates", find: "s.solveFor(p, s.simpleEnvelope(), false); !r.None", put: "s.solveFor(p, s.simpleEnvelope(), false); true",
		broken: "what holds for objects with simple metadata is taken to hold for all",
	},
	{
		in: "schema/contain.(*confirmer).blameRefusal", find: `return nil, false, "the new schema accepts the candidates"`, put: `return w, true, ""`,
		broken: "a witness that the new schema accepts is reported",
	},
	{
		in: "schema/contain.(*confirmer).tryObject", find: "len(before.Errors) > 0", put: "len(before.Errors) > 9",
		broken: "a witness that the old schema refuses is reported",
	},
	{
		in: "schema/contain.(*confirmer).tryObject", find: "if !matchesPath(g.Path, w.PrunedPaths) {", put: "if len(w.PrunedPaths) > 9 {",
		broken: "a witness of which the new schema drops nothing is reported as pruned",
	},
	{in: "schema/contain.(*confirmer).determineFate", call: "Ratchets", answers: "false", broken: "ratcheting is ignored: what it tolerates is told as stuck"},
	{in: "schema/contain.(*confirmer).determineFate", call: "statusUnratcheted", answers: "false", broken: "an object whose status cannot be written is told as ratcheted"},
	{
		in: "internal/cluster.(*judge).fateOf", find: "if j.status && ", put: "if !j.status && ",
		broken: "stored objects whose status cannot be written are counted as ratcheted",
	},
	{in: "schema/contain.(*confirmer).determineFate", without: "w.WritersOnly = true", broken: "an object whose stored form is accepted is told as stuck"},
	{in: "schema/contain.(*Result).addGap", without: "r.Verdict == Contained", broken: "Unknown is taken for Contained"},
	{
		in: "schema/contain.Decide", find: `s.cut != ""`, put: `s.cut != "" && len(r.Gaps) > 0`,
		broken: "a comparison that was cut short is taken for Contained",
	},
	{
		in: "schema/contain.newComparison", find: "nonStructuralKeyword(old.Node, new.Node)", put: "nonStructuralKeyword(old.Node, old.Node)",
		broken: "keywords of the new schema that are not modelled are overlooked",
	},
	{
		in: "schema/contain.(*library).Members", find: "len(out) == 0 && none", put: "len(out)+len(found) == 0",
		broken: "a search for strings that gave up is taken for a proof that no string matches",
	},
	{
		in: "schema/contain.(*membersOf).regularQuestion", find: "m.length.Max", put: "max(m.length.Min, m.length.Max-1)",
		broken: "the longest strings that maxLength allows are not looked at",
	},
	{
		in: "schema/contain.(*confirmer).confirmTransition", find: "err != nil || r.Refused()", put: "err != nil && r.Refused()",
		broken: "an update that the old schema refuses too is reported as a witness",
	},
	{in: "schema/contain.correlatesDifferently", without: "slices.Equal", broken: "that list-map keys decide what oldSelf is, is forgotten"},
	{
		in: "schema/contain.(*walker).impliedByForm", without: "optional != hasOptionalOldSelf(r)",
		broken: "a transition rule that loses optionalOldSelf is taken for the same",
	},
	{
		in: "schema/contain.(*walker).impliedByForm", find: "parsed.ImpliedBy(olds, scalar) && same()", put: "parsed.ImpliedBy(olds, scalar)",
		broken: "a rule is taken for implied though its fields are of other types",
	},
	{in: "schema/contain/internal/celrule.atom.impliesAtom", find: `switch a.op + " implies "`, put: `switch "==" + " implies "`, broken: "a comparison is taken to imply any other"},
	{
		in: "schema/contain/internal/celrule.withMeta", find: "declared != nil", put: "false",
		broken: "rules do not see what is filled in for the kind of an embedded resource", tests: []string{"compat"},
	},
	{
		in: "schema/contain.place.childPlace", find: `name == "status"`, put: "true",
		broken: "embedded resources outside of the status are taken to be unchecked", tests: []string{"compat"},
	},
	{
		in: "schema/contain.(*translator).embeddedResource", find: "if unchecked {", put: "if false {",
		broken: "embedded resources in the status are taken to be checked in each request", tests: []string{"compat"},
	},
	{
		in: "schema/contain/internal/celrule.(*translator).loadPlace", find: `n.Format != ""`, put: "false",
		broken: "that lists pass for strings with a format, which rules do not take, is forgotten",
	},
	{
		in: "schema/contain.(*walker).comparePieces", find: "goal = logic.Or{goal, someCompound}", put: "_ = goal",
		broken: "a list of one item that becomes a set of objects is safe", tests: []string{"compat"},
	},
	{
		in: "schema/contain.place.isSetOfCompounds", returns: "false",
		broken: "a set of objects is like one of strings", tests: []string{"compat"},
	},
	{
		in: "schema/contain.(*search).mayFail", find: "!ok || !s.provesNone(s.formulasFor(p, fails))", put: "!ok",
		broken: "a rule that is an error for a stored object is taken to be ratcheted",
	},
	{
		in: "schema/contain/internal/celrule.(*totality).knowing", find: "s.neg || s.e.kind != call", put: "s.e.kind != call",
		broken: "a field that has() did not find is taken to be there",
	},
	{in: "schema/contain.(*confirmer).determineFate", without: "stored, _ = schema.AsStored(stored).(map[string]any)", broken: "1.0 is taken to stay 1.0 in storage"},
	{
		in: "schema/contain.(*search).formulasIn", find: "fs = append(fs, s.old.writtenAt(s.oldRoot))", put: "_ = fs",
		broken: "values that nobody writes are tried first",
	},
	{
		in: "schema/contain.(*confirmer).confirmStuck", find: "Witness{Object: obj, Stuck: true, Errors", put: "Witness{Object: obj, Errors",
		broken: "an object that no update passes any more is told as an update that is refused",
	},
	{
		in: "schema/contain/internal/celrule.(*translator).sameTouched", without: "filledAlike",
		broken: "a transition rule is taken for the same though the default of what it speaks of changed",
	},
	{
		in: "schema/contain/internal/celrule.filledAlike", without: "IsRequired",
		broken: "a rule is taken for the same though a new default fills in what it looks at",
	},
	{
		in: "schema/contain/internal/celrule.filledAlike", without: "!field.HasDefault",
		broken: "a required field that is filled in is taken to be in every object",
	},
	{
		in: "schema/contain.dropValues", find: "XListMapKeys: p.XListMapKeys, XListType: p.XListType,",
		broken: "rules alone are asked without the list keys by which oldSelf is found",
	},
	{
		in: "schema/contain.(*search).probesFor", returns: "nil",
		broken: "no special cases are tried against a rule that is not understood",
	},
	{
		in: "schema/contain.restsAfter", without: `endsName(rest) || strings.HasSuffix(prefix, "]")`,
		broken: "what is said about replicasMax is taken to be about replicas",
	},
	{
		in: "schema/contain.blamesGap", find: "Step{Field, g.Detail}", put: `Step{AnyKey, ""}`,
		broken: "any missing property is taken for the one that became required",
	},
	{
		in: "schema/contain/internal/celrule.(*translator).sameTouched", find: "a.whole || b.whole", put: "false",
		broken: "a rule that compares whole values is taken to see nothing but the fields that it mentions",
	},
	{
		in: "schema/contain/internal/celrule.(*translator).samePropertiesWhole", without: "filledAlike",
		broken: "what is filled in below a value that a rule uses as a whole is passed over",
	},
	{
		in: "schema/contain/internal/celrule.(*translator).samePropertiesWhole", without: "p.Node.HasDefault",
		broken: "a new field that is filled in is taken for none in a value that a rule uses as a whole",
	},
	{
		in: "schema/contain.(*walker).sameTransition", without: "len(w.fillings) == 0",
		broken: "an unchanged rule about updates is passed over though a new default makes an old value where there was none",
	},
	{in: "schema/contain.correlatesDifferently", without: "SameDefault", broken: "a key of a list that is filled in is taken to change no update"},
	{
		in: "schema/contain.(*walker).comparePlaces", without: "len(w.fillings) == 0",
		broken: "what is equal is passed over though an object around it is filled in",
	},
	{
		in: "schema/contain.(*walker).impliedUpdate", find: "at.depth < w.fillings[0].from", put: "at.depth <= w.fillings[0].from",
		broken: "whether a value is filled in is judged without the object around it",
	},
	{
		in: "schema/contain.(*walker).fillBelow", find: "out[i].below = true", put: "out[i].below = false",
		broken: "the items of a list that is filled in are taken for what is there",
	},
	{
		in: "schema/contain.(*confirmer).confirmAny", find: "w, alone = c.confirmUnequal(ctx, p.suspect, w, alone)",
		put:    "_, alone = c.confirmUnequal(ctx, p.suspect, w, alone)",
		broken: "objects with unknown fields are taken to be tolerated like others",
	},
	{
		in: "schema/contain.(*search).solvePending", find: "p.models = append(s.solveBriefly(1, s.formulasFor(p, p.loses)...), p.models...)", put: "_ = p.loses",
		broken: "that a value of another type is pruned is not looked for",
	},
	{
		in: "schema/contain.(*walker).comparePlaces", find: "w.compareKept(o, n)", put: "_ = w.compareKept",
		broken: "below a type that differs nothing is taken to be pruned",
	},
	{
		in: "schema/contain.(*search).newConfirmer", find: "c.objs = append(c.objs, r.Stored)", put: "_ = r.Stored",
		broken: "what is filled in before an object is stored is unknown to the schema that judges it then",
	},
	{in: "schema/contain.(*walker).impliedUpdate", without: "w.moved > 0", broken: "a rule about updates follows from one that sees other old values"},
	{in: "schema/contain.(*walker).frozenByRules", without: "SameWhereEqual", broken: "what is equal in CEL is taken to be the same"},
	{
		in: "schema/contain.(*confirmer).determineFate", find: "w.WritersOnly = !plain.Refused()", put: "w.WritersOnly = plain.Refused()",
		broken: "a rule that tolerates what is stored is said to need ratcheting",
	},
	{in: "schema/contain.equalsItself", without: "preservesUnknown", broken: "objects with unknown fields are proven to equal themselves"},
	{
		in: "schema/contain.(*search).alwaysRatchets", find: `p.rule != ""`, put: `p.rule == "?"`,
		broken: "rules that see the stored value are taken to be ratcheted",
	},
	{
		in: "schema/contain.(*search).foundAgain", find: "!unreadable || !s.seenByUpdates(g.Path)", put: "true",
		broken: "values that CEL cannot read are taken to be ratcheted below rules about updates",
	},
	{
		in: "schema/contain.(*search).alwaysRatchets", find: "if len(g.Path) == 0 || g.Path[0]",
		put:    "if len(g.Path) == 0 { return true }; if g.Path[0]",
		broken: "what is wrong with the object itself is taken to be ratcheted",
	},
	{
		in: "schema/contain.(*search).storedCandidates", call: "provesNone", answers: "true",
		broken: "every object is taken to fare as well as a witness that is in no trouble",
	},
	{
		in: "schema/contain.(*walker).sameKeys", find: "!w.provedLocally(o.itemPlace(), logic.And{logic.Kinds(logic.Object), logic.Lacks{Name: key}})",
		put:    "n.node.Items.Property(key) == nil",
		broken: "what is filled in for a key is taken to make no difference to items that lack it",
	},
	{
		in: "schema/contain.(*confirmer).confirmTransition", find: "len(x.errorsAbout(r.Errors))", put: "len(r.Errors)",
		broken: "an update that is refused for any reason shows a rule about updates",
	},
	{
		in: "schema/contain/internal/celrule.atMostConst", find: "most--", put: "most += 0",
		broken: "a sum that must be less than a constant may be equal to it",
	},
}
