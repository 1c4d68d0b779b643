package main

// compatFaults are those of the rules about CRDs.
// Most of them make a comparison report less: such a fault is what users cannot see.
var compatFaults = []fault{
	{in: "compat.(*comparison).storedVersions", without: "add(c.old.Status.StoredVersions...)", broken: "status.storedVersions is ignored"},
	{
		in: "compat.newComparison", without: "isStored",
		broken: "versions that are only stored are not compared",
	},
	{
		in: "compat.(*comparison).crossUpdates", find: "c.suspectLabels(to)", put: "c.suspectLabels(to)[:0]",
		broken: "rules about updates of a new version that refuse to set a label are passed over",
	},
	{
		in: "compat.(*comparison).crossOld", without: "crossTolerated",
		broken: "errors that ratcheting tolerated until now are forgotten",
	},
	{
		in: "compat.(*comparison).addCrossing", find: "refuses && c.takeToleratedBefore(ctx, &x)", put: "false",
		broken: "an error that takes the place of a tolerated one is forgotten",
	},
	{
		in: "compat.(*comparison).fillsAfterRead", find: "c.afterStep(stored, step{stepConvert, by})", put: "stored",
		broken: "a field that the stored version drops is taken to be there when a default is filled in",
	},
	{
		in: "compat.(*comparison).lostAnew", find: "isDataDropped(g) && c.storedAnew(p.to)", put: "false && c.storedAnew(p.to)",
		broken: "what a version drops of each write since it stores objects is taken for old news",
	},
	{
		in: "compat.(*comparison).comparesAnew", find: "!before.Served", put: "true",
		broken: "errors that a new default makes intolerable are taken for old news",
	},
	{
		in: "compat.(*comparison).decideHere", find: "c.updatedOnly(ctx, from, to, gaps)...", put: "c.updatedOnly(ctx, from, to, gaps)[:0]...",
		broken: "objects that only an update reaches are not compared",
	},
	{
		in: "compat.ruleOfUpdates", find: `anyOld.ReplaceAllString(r.Rule, "optional.of(oldSelf)")`, put: `"true"`,
		broken: "a new rule that uses oldSelf as an optional value is not asked about objects that only an update reaches",
	},
	{
		in: "compat.(*comparison).updatedOnly", find: "base == nil", put: "false",
		broken: "objects that nothing reaches count as witnesses",
	},
	{
		in: "compat.(*comparison).findCrossings", find: "!c.isStored(to.Name)", put: "true",
		broken: "what a version that is only stored drops of another version's objects is not told",
	},
	{
		in: "compat.withValues", find: "p.MinProperties != nil && least", put: "false && least",
		broken: "null beside other values of a map is not tried",
	},
	{
		in: "compat.(*comparison).refusesForNull", find: "!takenNow && withoutNull", put: "false && !takenNow && withoutNull",
		broken: "null that was dropped from requests and is refused now is not told",
	},
	{
		in: "compat.(*comparison).updateRefusedForNull", find: "!now.Refused()", put: "true || !now.Refused()",
		broken: "null that was dropped from updates and is refused now is not told",
	},
	{
		in: "compat.(*widening).withNullHere", find: "slices.ContainsFunc(above.XValidations, w.ruleMayRead)", put: "false",
		broken: "null that rules above it read is not tried",
	},
	{
		in: "compat.replacesNull", find: "return written != nil", put: "return false",
		broken: "a default in place of null is taken for the null",
	},
	{
		in: "compat.(*comparison).readersFinding", find: "lost != (w.Before != nil)", put: "lost != false",
		broken: "a default that reading filled in, and fills in no longer, is not told",
	},
	{
		in: "compat.(*comparison).objectsFilledBy", find: "asking != from.props", put: "false",
		broken: "a default in place of null, which is filled in no longer, is not told",
	},
	{
		in: "compat.(*comparison).decideHere", find: "from.Name != to.Name", put: "false",
		broken: "a rule reads the apiVersion of the version that was written",
	},
	{
		in: "compat.told.hasGap", find: "usual || known && g.OddAlone", put: "usual || known",
		broken: "a note about odd values hides what usual values meet",
	},
	{
		in: "compat.isDataDropped", find: "g.Harm == contain.Refused && g.Keyword", put: "false && g.Keyword",
		broken: "metadata of embedded resources that reading drops is not lost",
	},
	{
		in: "compat.(*comparison).asStored", find: "!fillsMore(p.props, reader.props, 0)", put: "true",
		broken: "what a version says of a field hides the objects that are stored without it and filled in by a reader",
	},
	{
		in: "compat.(*comparison).addCrossing", find: "refuses && c.travelsOtherwise(ctx, &x)", put: "false && c.travelsOtherwise(ctx, &x)",
		broken: "one object that is mended on the way stands for all",
	},
	{
		in: "compat.defaultsOf", find: "declared || kept == nil", put: "declared || kept == nil || true",
		broken: "maps and unknown fields do not take the defaults of a reader",
	},
	{
		in: "compat.(*comparison).objectsLackingDefaults", find: "contain.Decide(ctx, from.side, side, o).Gaps", put: "nil",
		broken: "no object lacks what a reader fills in",
	},
	{
		in: "compat.namesWebhook", without: "d.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter",
		broken: "conversion: None that is written out is taken for a webhook",
	},
	{
		in: "compat.(*comparison).conversionsAnew", without: "webhookAddress(c.old) != webhookAddress(c.new)",
		broken: "another webhook takes the place of one, and nothing is told",
	},
	{
		in: "compat.webhookConversions", find: "p != home", put: "false",
		broken: "the new storage version needs no webhook for writes in others",
	},
	{
		in: "compat.keepAll", find: "schema.InStructure", put: "0",
		broken: "spec.preserveUnknownFields keeps fields only at the root",
	},
	{
		in: "compat.(*comparison).compareSchemas", without: "readFromStorage",
		broken: "data that is lost in a version that is stored and not served is not told",
	},
	{
		in: "compat.(*comparison).readFromStorage", without: "(g.Harm == contain.Redefaulted || isDefaultOfNull(g)) && c.isStored(p.from.Name)",
		broken: "a default that changes in a version that is stored and not served is not told",
	},
	{
		in: "compat.(*comparison).findingOf", find: "report.Undecided", put: "report.Note",
		broken: "an undecided change is told as a note, which fails nothing",
	},
	{in: "compat.levelOf", find: "g.Before", put: "g.After", broken: "a default that is removed is only warned of, and one that is added fails"},
	{
		in: "compat.levelOf", find: "report.ObjectsStuck", put: "report.WritersRefused",
		broken: "objects that are stuck are told at the level of writers refused",
	},
	{
		in: "compat.(*comparison).findingOf", find: "f.MayBe = worst", put: `f.MayBe = ""`,
		broken: "a level that is not proven of all objects counts as if it were",
	},
	{
		in: "internal/config.(*Config).severityOf", find: `f.MayBe != "" && rule == ""`, put: `f.MayBe == "?"`,
		broken: "what may be worse counts as what it is shown to be",
	},
	{
		in: "compat.sameValue", find: "return a.Equal(b)", put: "return true",
		broken: "a maximum that becomes exclusive is taken for an edit of texts",
	},
	{
		in:     "compat.(*comparison).sameFrame",
		find:   "!slices.ContainsFunc(c.storedVersions(), func(v string) bool { return findVersion(c.newParts, v) == nil })",
		put:    "true",
		broken: "a CRD that did not change passes though it lacks a version that is stored",
	},
	{in: "compat.(*comparison).verdictOf", find: "report.IsNew", put: "report.Safe", broken: "a CRD that was compared with nothing is called safe"},
	{in: "compat.(*comparison).verdictOf", find: "report.IsUndecided", put: "report.Safe", broken: "a CRD with an undecided change is called safe"},
	{in: "compat.(*comparison).addFinding", find: "report.Fail", put: "report.Warn", broken: "an undecided change does not fail"},
	{
		in: "compat.(*comparison).validateHere", find: "len(fresh) > 0 || len(frame) > 0", put: "len(frame) > 0",
		broken: "what the API server refuses in schemas is not told",
	},
	{
		in: "compat.cutProperties", find: "*left", put: "props{Type: left.Type}",
		broken: "what is wrong with a property that goes is cut out before the old CRD is validated",
	},
	{
		in: "compat.(*comparison).asInstalled", find: "apiextensionsv1.ConditionTrue", put: "apiextensionsv1.ConditionFalse",
		broken: "the old CRD is taken for one that was never established, whose names may change",
	},
	{
		in: "compat.(*comparison).reachableCrossings", find: "len(c.newConversions) == 0", put: "len(c.oldConversions) > 0",
		broken: "what one version holds and another erases or refuses, under conversion None, is not told",
	},
	{
		in: "compat.(*comparison).knownTo", find: "(before.Served || c.isStored(before.Name))", put: "true",
		broken: "a version that begins to be served is taken for one that clients used before",
	},
	{
		in: "compat.(*comparison).crossAgain", without: "filler.Storage",
		broken: "what the new storage version fills in is forgotten",
	},
	{
		in: "compat.(*comparison).crossAgain", call: "stillServed", answers: "false",
		broken: "what another version fills in when it writes is forgotten",
	},
	{
		in: "compat.(*comparison).findWrittenVersions", find: "s.Storage || !c.isStored(s.Name) || len(c.oldConversions) > 0", put: "s.Storage || s.Name != \"\"",
		broken: "objects of a served version are taken to be stored in the storage version, though status.storedVersions names both",
	},
	{
		in: "compat.(*comparison).withoutStatus", find: "bare == p", put: "bare.to != nil",
		broken: "a default of .status is taken to be there when an object is created",
	},
	{
		in: "compat.checksInStatus", find: "hasStatus(p)", put: "p == nil",
		broken: "requests to the status subresource are taken to check embedded resources",
	},
	{
		in: "compat.checksInStatus", find: "anyBelow(&status",
		put:    "anyBelow(schema.Rewrite(&status, schema.InStructure, func(s *props) { s.Items = nil })",
		broken: "embedded resources in lists of the status are taken to be checked",
	},
	{
		in: "compat.(*comparison).withoutUncheckedWrites", find: "return !stored.hasGap(&g)", put: "return false",
		broken: "writers of the status are said to be refused by a check that they do not meet",
	},
	{
		in: "compat.unfilledStatus", find: "!fillsBelow(&status)", put: "fillsBelow(&status)",
		broken: "defaults in the status are taken to be there when another version has read the object",
	},
	{
		in: "compat.(*comparison).unfilledBefore", find: "before == nil || !before.Served", put: "before != nil",
		broken: "a refusal of the old CRD is told as news of the new one",
	},
	{
		in: "compat.(*comparison).toldOfItself", find: "same.Served", put: `same.Name != ""`,
		broken: "what a version that is not served would refuse is not told of the others",
	},
	{
		in: "compat.(*comparison).filledIn", find: "if err != nil || !slices.ContainsFunc(j.filled,",
		put:    "if err != nil || len(j.filled) > 0 || !slices.ContainsFunc(j.filled,",
		broken: "a default that one version fills in on reading, and another refuses, is not told",
	},
	{
		in: "compat.(*comparison).fillsAnew", find: "c.storageMoves()", put: "false",
		broken: "a default that a new storage version fills in, and filled in before only where it was written, is not told",
	},
	{
		in: "compat.(*comparison).crossUpdates", find: "range suspects", put: "range suspects[:0]",
		broken: "a rule about updates that sees other defaults of another version is called safe if no witness is found",
	},
	{
		in: "compat.(*comparison).fillerPairs", find: "add(storageVersionOf(c.oldParts), storageVersionOf(c.newParts))", put: "_ = storage",
		broken: "the old value of an update is taken to have the same defaults though another version stores it",
	},
	{
		in: "compat.(*comparison).fillerPairs", call: "stillServed", answers: "n.Storage",
		broken: "what a version fills in when it writes is forgotten in the old values of updates in another one",
	},
	{
		in: "schema/contain.(*Options).rulesWithMovedValues", without: "len(w.fillings) > 0",
		broken: "a default of another version gives an update an old value where it had none, which is not told", tests: []string{"compat"},
	},
	{
		in: "schema/contain.(*walker).allowsAll", find: "!moved, at.path", put: "true, at.path",
		broken: "a rule about updates follows from itself though it sees other old values than before", tests: []string{"compat"},
	},
	{
		in: "schema/contain/internal/celrule.(*Rule).SeesSameOld", find: "{fresh: true}, oldSelf)", put: "{fresh: true})",
		broken: "a rule about updates is taken to see nothing of the old value", tests: []string{"compat"},
	},
	{
		in: "compat.requireDefaulted", find: "!fillsIn(child) && !fillsIn(twin)", put: "!fillsIn(twin) || fillsIn(child)",
		broken: "the defaults of the version in which an object was written are forgotten when it is read in another one",
	},
	{in: "compat.told.hasGap", without: "g.Harm != contain.Pruned", broken: "a version that refuses a field, which it dropped before, is not told"},
	{in: "compat.Check", without: "frameAccepted", broken: "metadata that the API server refuses are called unchanged"},
	{
		in: "compat.withScaleDemands", find: `branch = props{Type: "object", Nullable: true, Properties`, put: "branch = props{Properties",
		broken: "an object that is stuck, because a path of the scale subresource leads through a string, is not told",
	},
	{in: "compat.scalePaths", find: "float64(0)", put: "float64(-9)", broken: "negative replicas that the scale subresource refuses are not told"},
	{
		in: "compat.holdsStatus", find: "declared || p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields",
		put:    "declared && p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields",
		broken: "a status subresource over a status that is kept as an unknown field is not told",
	},
	{
		in: "schema/contain.(*confirmer).confirmAny", without: "p.gap.Harm != Refused || !w.WritersOnly",
		broken: "the level is that of the first witness, which nothing stored is in trouble by",
	},
	{
		in: "schema/contain.(*confirmer).determineFate", without: "w.Masked == nil || !c.refusesMasked(ctx, x, stored)",
		broken: "a rule that is not evaluated, because something else is wrong, is taken for one that the stored object passes",
	},
	{
		in: "compat.effectOnWitness", find: "len(w.Masked) > 0", put: "len(w.Masked) > 9",
		broken: "a finding does not say that the API server does not evaluate its rule",
	},
	{
		in: "compat.(*comparison).validateByServer", find: "r.errs, r.err = errs, err", put: "_ = errs",
		broken: "what the linked code refuses is told in place of what the API server says",
	},
	{
		in: "compat.crdRefusedByAPIServer", call: "aboutCosts", answers: "false",
		broken: "what a rule costs by the newest code is told of an older API server",
	},
	{
		in: "schema/contain.(*translator).numberRange", find: "checked := upstream.ChecksNumbers(t.opts.KubeVersion)",
		put:    "checked := upstream.ChecksNumbers(t.opts.KubeVersion) || true",
		broken: "formats of numbers are checked under versions whose API server ignores them",
	},
	{
		in: "internal/input.splitStream", find: "ended = true", put: "ended = false",
		broken: "a document behind a line ... is compared, which kubectl leaves out",
	},
	{
		in: "internal/input.(*converter).convertValue", find: "return schema.AsStored(v), nil", put: "return v, nil",
		broken: "1.0 in JSON is taken for another literal than 1",
	},
	{
		in: "internal/input.checkText", find: `s != "" && !strings.HasSuffix(s, "\n")`, put: `s == "\n"`,
		broken: "a literal block at the end of a file without a newline lacks the newline that kubectl reads",
	},
	{
		in: "compat.(*comparison).findStorageGaps", without: "!same.Served",
		broken: "objects are stuck in the new storage version and it is not told, where the old version is still there and not served",
	},
	{in: "compat.(*comparison).crossPairs", without: "isStored", broken: "versions that are only stored are forgotten when a webhook is dropped"},
	{
		in: "compat.scaleSubresourceChanged", find: `tell("labelSelectorPath", ptr.Deref(o.LabelSelectorPath, ""), ptr.Deref(n.LabelSelectorPath, ""))`,
		put:    "_ = ptr.Deref[string]",
		broken: "a label selector path that is gone is not told",
	},
	{in: "compat.printerColumnChanged", without: "o.Type == n.Type", broken: "a printer column whose type changed is not told"},
	{
		in: "compat.(*comparison).toldElsewhere", find: `isErrorAbout(e, "spec.scope") && o.Scope != n.Scope && n.Scope != ""`,
		put:    `isErrorAbout(e, "spec.scope")`,
		broken: "a scope that is no scope is not told, because that is left to a rule about its change",
	},
	{
		in: "compat.(*comparison).findCrossings", without: "to != c.readingVersion(from)",
		broken: "what one version wrote is pruned by the stored one, which is not served, and it is not told",
	},
	{
		in: "compat.(*comparison).journeyWith", find: "append(dropped, more...)", put: "more",
		broken: "what reading drops, before the object is converted, is not counted as lost",
	},
	{
		in: "compat.(*comparison).decideHere", find: "from = c.afterStep(from, step{kind: stepScale})", put: "_ = scalePaths",
		broken: "values that the scale subresource refuses are taken for stored",
	},
	{
		in: "compat.(*comparison).readersSurprised", call: "afterStep", answers: "p.to",
		broken: "readers are warned of values that the scale subresource refuses",
	},
	{
		in: "compat.(*comparison).journeyWith", find: "j.filled = minusErrors(j.errors, before.Errors)", put: "_ = before",
		broken: "a default that another version fills in by reading makes a rule refuse the object, and it is not told",
	},
	{
		in: "compat.(*comparison).crossConverted", call: "unlikeDefaults", answers: "c.gaps[p][:0]",
		broken: "a rule about updates takes the default of another version for a change, and it is not told",
	},
	{
		in: "compat.(*journey).addErrors", find: "j.errors = minusErrors(j.errors, was)", put: "_ = was",
		broken: "updates that were refused before are told as news",
	},
	{
		in: "compat.(*comparison).findCrossings", without: "to == c.readingVersion(from)",
		broken: "a default of the stored version is not held against the version in which the object was written",
	},
	{
		in: "compat.stopsWriteBack", without: "g.Harm == contain.RefusedTransition && (g.Witness == nil || g.Witness.Old == nil)",
		broken: "a rule about updates of another version that refuses every update is passed over",
	},
	{
		in: "compat.(*comparison).filledIn", find: "!gapKeys(c.decidePair(ctx, pair{both.from, p.to})).hasGap(&g)", put: "false",
		broken: "what is not decided about defaults that reading fills in is taken for safe",
	},
	{
		in: "compat.(*comparison).journeyWith", without: "len(dropped) == 0 && differ(kept, stored)",
		broken: "a null that the stored version drops when it is read is taken for kept",
	},
	{
		in: "compat.(*journey).refusesAt", find: `return isPathOfGap(path, g) || path == "<nil>"`,
		put:    `return isPathOfGap(path, g) || path == "<nil>" && strings.Contains(e, "("+g.Keyword+")")`,
		broken: "an object that a bound of another version refuses without saying where is taken to fit",
	},
	{
		in: "compat.(*comparison).areAlike", find: "p.Name == q.Name", put: "true",
		broken: "versions that say something else are taken for one",
	},
	{
		in: "compat.compareAlike", find: "DeepEqual(a.Subresources, b.Subresources)", put: "DeepEqual(b.Subresources, b.Subresources)",
		broken: "a version without the status subresource is taken for one that has it",
	},
	{
		in: "compat.(*comparison).distinctVersions", find: "!known", put: "!known || i >= 0",
		broken: "an equal version is asked about again, until the budget is spent",
	},
	{
		in: "compat.(*comparison).storeObject", find: "schema.AsStored(obj).(map[string]any)", put: "any(obj).(map[string]any)\n\t_ = schema.AsStored",
		broken: "1.0 is taken to stay 1.0 between versions",
	},
	{
		in: "compat.(*comparison).validateByServer", find: ":= errors.AsType[*AdmissionError](err); ok {",
		put:    ":= errors.AsType[*AdmissionError](err); ok && false {",
		broken: "what a webhook or policy refuses is taken for the API server's validation",
	},
	{
		in: "compat.(*comparison).addCrossing", find: "refuses && (!g.OddAlone || g.OutOfBudget())", put: "false",
		broken: "refusals in another version that are not decided are taken for safe",
	},
	{
		in: "compat.(*journey).addErrors", call: "slices.ContainsFunc", answers: "len(was) > 0",
		broken: "what rules refuse in another version is left out where the old CRD refused the object as well",
	},
	{
		in: "compat.preserveUnknownFieldsDisabled", find: "f.Outcome == report.Violation", put: "f.Outcome != report.Undecided",
		broken: "a note stands for the loss of all unknown fields",
	},
	{
		in: "compat.(*comparison).filledIn", find: "c.decidePair(ctx, both)", put: "c.gaps[both]",
		broken: "of several new defaults only the simplest object that lacks them all is looked at",
	},
	{
		in: "schema/upstream.(*compiledRules).compileRules", call: "rulesWork", answers: "0",
		broken: "rules are compiled before they are charged for", tests: []string{"compat"},
	},
	{
		in: "compat.(*comparison).crossConverted", find: "!grown(&g)", put: "(true || grown(&g))",
		broken: "what a version refuses is taken for old news, though it dropped the field until now that makes it refuse the object",
	},
	{
		in: "compat.(*comparison).addCrossing", find: "before && p.to.Served", put: "false",
		broken: "a gap that some objects met before is taken to concern no others",
	},
	{
		in: "compat.(*comparison).gapsOnTheWay", find: "named == from || !c.work.Charge(unitsToCross)", put: "named != nil",
		broken: "a field that the stored version no longer declares is taken for one of the unknown fields that it always dropped",
	},
	{in: "compat.(*comparison).keptNow", without: "gone.addGaps", broken: "a field that the stored version always dropped is taken for one that was stored"},
	{
		in: "compat.(*comparison).requestRefused", find: "err != nil || p.from.Name != p.to.Name || !p.from.Served",
		put:    "err == nil || p.from.Name != p.to.Name",
		broken: "a request that the scale subresource refuses is not told where the stored version has another value",
	},
}
