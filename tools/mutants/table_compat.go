package main

// compatFaults are those of the rules about CRDs.
var compatFaults = []fault{
	{
		file: "compat/comparison.go", old: `add(c.old.Status.StoredVersions...)`, new: `add()`,
		broken: "status.storedVersions is ignored",
	},
	{
		file: "compat/comparison.go", old: `to != nil && (from.Served || c.isStored(from.Name)) {`, new: `to != nil && from.Served {`,
		broken: "versions that are only stored are not compared",
	},
	{
		file: "compat/comparison.go", old: `return d != nil && d.Spec.Conversion != nil && d.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter`,
		new:    `return d != nil && d.Spec.Conversion != nil`,
		broken: "conversion: None that is written out is taken for a webhook",
	},
	{
		file: "compat/comparison.go", old: `ps[i].props = keepAll(ps[i].props, 0)`, new: `ps[i].props = keepAll(ps[i].props, schema.MaxDepth)`,
		broken: "spec.preserveUnknownFields keeps fields only at the root",
	},
	{
		file: "compat/change.go", old: `if !p.to.Served && !c.readFromStorage(p, g.Harm) {`, new: `if !p.to.Served {`,
		broken: "data that is lost in a version that is stored and not served is not told",
	},
	{
		file: "compat/change.go", old: `return h == contain.Pruned || h == contain.Redefaulted && c.isStored(p.from.Name)`, new: `return h == contain.Pruned`,
		broken: "a default that changes in a version that is stored and not served is not told",
	},
	{
		file: "compat/change.go", old: `f.Outcome, f.Reason = report.Undecided, ch.Reason`, new: `f.Outcome, f.Reason = report.Note, ch.Reason`,
		broken: "an undecided change is told as a note, which fails nothing",
	},
	{
		file: "compat/change.go", old: `if g.Keyword == "default" && g.Before == nil {`, new: `if g.Keyword == "default" && g.After == nil {`,
		broken: "a default that is removed is only warned of, and one that is added fails",
	},
	{
		file: "compat/change.go", old: `	case contain.Stuck:
		return report.ObjectsStuck
`, new: `	case contain.Stuck:
		return report.WritersRefused
`,
		broken: "objects that are stuck are told at the level of writers refused",
	},
	{
		file: "compat/change.go", old: `f.MayBe = worst`, new: `f.MayBe = ""`,
		broken: "a level that is not proven of all objects counts as if it were",
	},
	{
		file: "internal/config/apply.go", old: `if f.MayBe != "" && rule == "" {`, new: `if f.MayBe == "?" {`,
		broken: "what may be worse counts as what it is shown to be",
	},
	{
		file: "compat/same.go", old: ` && a.ExclusiveMaximum == b.ExclusiveMaximum`, new: ``,
		broken: "a maximum that becomes exclusive is taken for an edit of texts",
	},
	{
		file: "compat/comparison.go", old: `return !slices.ContainsFunc(c.storedVersions(), func(v string) bool { return find(c.newParts, v) == nil })`, new: `return true`,
		broken: "a CRD that did not change passes though it lacks a version that is stored",
	},
	{
		file: "compat/check.go", old: `v = report.IsUndecided`, new: `v = report.Safe`,
		broken: "a CRD with an undecided change is called safe",
	},
	{
		file: "compat/check.go", old: `f.Level, f.Severity = "", report.Fail`, new: `f.Level, f.Severity = "", report.Warn`,
		broken: "an undecided change does not fail",
	},
	{
		file: "compat/refusal.go", old: `if len(fresh) > 0 || len(frame) > 0 {`, new: `if len(frame) > 0 {`,
		broken: "what the API server refuses in schemas is not told",
	},
	{
		file: "compat/refusal.go", old: `rest[name] = *left`, new: `rest[name] = props{Type: left.Type}`,
		broken: "what is wrong with a property that goes is cut out before the old CRD is validated",
	},
	{
		file: "compat/refusal.go", old: `Status: apiextensionsv1.ConditionTrue}`, new: `Status: apiextensionsv1.ConditionFalse}`,
		broken: "the old CRD is taken for one that was never established, whose names may change",
	},
	{
		file: "compat/reach.go", old: `if c.both() && !converts(c.new) {`, new: `if c.both() && converts(c.old) {`,
		broken: "what one version holds and another erases or refuses, under conversion None, is not told",
	},
	{
		file: "compat/reach.go", old: `if before == nil || !before.Served && !c.isStored(before.Name) {`, new: `if before == nil {`,
		broken: "a version that begins to be served is taken for one that clients used before",
	},
	{
		file: "compat/reach.go", old: `if (filler.Storage || writes) && filler != home`, new: `if writes && filler != home`,
		broken: "what the new storage version fills in is forgotten",
	},
	{
		file: "compat/reach.go", old: `if (filler.Storage || writes) && filler != home`, new: `if filler.Storage && filler != home`,
		broken: "what another version fills in when it writes is forgotten",
	},
	{
		file: "compat/reach.go", old: `if p.Served && !p.Storage && !converts(c.old) && c.isStored(p.Name) {`, new: `if false {`,
		broken: "objects of a served version are taken to be stored in the storage version, though status.storedVersions names both",
	},
	{
		file: "compat/comparison.go", old: `if bare == p {`, new: `if bare.to != nil {`,
		broken: "a default of .status is taken to be there when an object is created",
	},
	{
		file: "compat/reach.go", old: `if same.Served || c.readFromStorage(pair{from, same}, g.Harm) {`, new: `if same.Name != "" || c.readFromStorage(pair{from, same}, g.Harm) {`,
		broken: "what a version that is not served would refuse is not told of the others",
	},
	{
		file: "compat/reach.go", old: `if err != nil || !slices.ContainsFunc(j.filled,`, new: `if err != nil || len(j.filled) > 0 || !slices.ContainsFunc(j.filled,`,
		broken: "a default that one version fills in on reading, and another refuses, is not told",
	},
	{
		file: "compat/settle.go", old: `if fillsIn(&child) || shared && fillsIn(&twin) {`, new: `if shared && fillsIn(&twin) && !fillsIn(&child) {`,
		broken: "the defaults of the version in which an object was written are forgotten when it is read in another one",
	},
	{
		file: "compat/told.go", old: `if t[keyOf(g)] || g.Harm != contain.Pruned {`, new: `if t[keyOf(g)] {`,
		broken: "a version that refuses a field, which it dropped before, is not told",
	},
	{
		file: "compat/check.go", old: `c.onlyTextsDiffer() && c.frameAccepted(ctx)`, new: `c.onlyTextsDiffer()`,
		broken: "metadata that the API server refuses are called unchanged",
	},
	{
		file: "compat/rule_scale_value_refused.go", old: `branch = props{Type: "object", Nullable: true, Properties`, new: `branch = props{Properties`,
		broken: "an object that is stuck, because a path of the scale subresource leads through a string, is not told",
	},
	{
		file: "compat/rule_scale_value_refused.go", old: `zero, most := float64(0), `, new: `zero, most := float64(-9), `,
		broken: "negative replicas that the scale subresource refuses are not told",
	},
	{
		file: "compat/rule_status_subresource_added.go", old: `return declared || p.X`, new: `return declared && p.X`,
		broken: "a status subresource over a status that is kept as an unknown field is not told",
	},
	{
		file: "schema/contain/search.go", old: `case clean && (p.gap.Harm != Refused || !w.WritersOnly):`, new: `case clean:`,
		broken: "the level is that of the first witness, which nothing stored is in trouble by",
	},
	{
		file: "schema/contain/search.go", old: `if !blames(&x.gap, again.Errors) && (w.Masked == nil || !c.masked(ctx, x, stored)) {`, new: `if !blames(&x.gap, again.Errors) {`,
		broken: "a rule that is not evaluated, because something else is wrong, is taken for one that the stored object passes",
	},
	{
		file: "compat/change.go", old: `if len(w.Masked) > 0 {`, new: `if len(w.Masked) > 9 {`,
		broken: "a finding does not say that the API server does not evaluate its rule",
	},
	{
		file: "compat/refusal.go", old: `r.errs, r.err = errs, err
`, new: `_ = errs
`,
		broken: "what the linked code refuses is told in place of what the API server says",
	},
	{
		file: "compat/rule_crd_refused_by_api_server.go", old: `if !r.byServer && c.otherVersion() && aboutCosts(e) {`, new: `if false {`,
		broken: "what a rule costs by the newest code is told of an older API server",
	},
	{
		file: "schema/contain/numbers.go", old: `if !upstream.ChecksNumbers(t.opts.KubeVersion) {`, new: `if false {`,
		broken: "formats of numbers are checked under versions whose API server ignores them",
	},
	{
		file: "internal/input/split.go", old: `				ended = true
`, new: `				ended = false
`,
		broken: "a document behind a line ... is compared, which kubectl leaves out",
	},
	{
		file: "internal/input/text.go", old: `if s != "" && !strings.HasSuffix(s, "\n") {`, new: `if s == "\n" {`,
		broken: "a literal block at the end of a file without a newline lacks the newline that kubectl reads",
	},
	{
		file: "compat/rule_storage_version_changed.go", old: `stuck := g.Harm == contain.Refused && (same == nil || !same.Served)`, new: `stuck := g.Harm == contain.Refused && same == nil`,
		broken: "objects are stuck in the new storage version and it is not told, where the old version is still there and not served",
	},
	{
		file: "compat/rule_conversion_webhook_dropped.go", old: `if p.Served || c.isStored(p.Name) {`, new: `if p.Served {`,
		broken: "versions that are only stored are forgotten when a webhook is dropped",
	},
	{
		file: "compat/rule_scale_subresource_changed.go", old: `tell("labelSelectorPath", orEmpty(o.LabelSelectorPath), orEmpty(n.LabelSelectorPath))`, new: `_ = orEmpty`,
		broken: "a label selector path that is gone is not told",
	},
	{
		file: "compat/rule_printer_column_changed.go", old: ` && o.Type == n.Type`, new: ``,
		broken: "a printer column whose type changed is not told",
	},
	{
		file: "compat/rule_crd_refused_by_api_server.go", old: `about(e, "spec.scope") && o.Scope != n.Scope && n.Scope != "" ||`, new: `about(e, "spec.scope") ||`,
		broken: "a scope that is no scope is not told, because that is left to a rule about its change",
	},
	{
		file: "compat/reach.go", old: `!to.Served && to != c.home(from)`, new: `!to.Served`,
		broken: "what one version wrote is pruned by the stored one, which is not served, and it is not told",
	},
	{
		file: "compat/journey.go", old: `append(dropped, more...)`, new: `more`,
		broken: "what reading drops, before the object is converted, is not counted as lost",
	},
	{
		file: "compat/comparison.go", old: `from = scaled(from, scalePaths(from))`, new: `_ = scalePaths`,
		broken: "values that the scale subresource refuses are taken for stored",
	},
	{
		file: "compat/readers.go", old: `to := scaled(p.to, scalePaths(p.to))`, new: `to := p.to`,
		broken: "readers are warned of values that the scale subresource refuses",
	},
	{
		file: "compat/journey.go", old: `j.filled = minusErrors(j.errors, before.Errors)`, new: `_ = before`,
		broken: "a default that another version fills in by reading makes a rule refuse the object, and it is not told",
	},
	{
		file: "compat/reach.go", old: `for _, g := range c.unlike(ctx, p, home) {`, new: `for _, g := range c.gaps[p][:0] {`,
		broken: "a rule about updates takes the default of another version for a change, and it is not told",
	},
	{
		file: "compat/journey.go", old: `j.errors = minusErrors(j.errors, was)`, new: `_ = was`,
		broken: "updates that were refused before are told as news",
	},
	{
		file: "compat/reach.go", old: `case from.Name == to.Name && to == c.home(from):`, new: `case from.Name == to.Name:`,
		broken: "a default of the stored version is not held against the version in which the object was written",
	},
	{
		file: "compat/reach.go", old: `g.Harm == contain.RefusedTransition && (g.Witness == nil || g.Witness.Old == nil)`, new: `false`,
		broken: "a rule about updates of another version that refuses every update is passed over",
	},
	{
		file: "compat/reach.go", old: `if !gapKeys(c.decide(ctx, pair{both.from, p.to}))[keyOf(&g)] {`, new: `if false {`,
		broken: "what is not decided about defaults that reading fills in is taken for safe",
	},
	{
		file: "compat/journey.go", old: ` || len(dropped) == 0 && differ(kept, stored)}`, new: `}`,
		broken: "a null that the stored version drops when it is read is taken for kept",
	},
	{
		file: "compat/journey.go", old: `return concerns(path, g) || path == "<nil>"`, new: `return concerns(path, g) || path == "<nil>" && strings.Contains(e, "("+g.Keyword+")")`,
		broken: "an object that a bound of another version refuses without saying where is taken to fit",
	},
	{
		file: "compat/journey.go", old: `	first, _ = contain.AsStored(first).(map[string]any)
`, new: ``,
		broken: "1.0 is taken to stay 1.0 between versions",
	},
	{
		file: "compat/refusal.go", old: `:= errors.AsType[*AdmissionError](err); ok {`, new: `:= errors.AsType[*AdmissionError](err); ok && false {`,
		broken: "what a webhook or policy refuses is taken for the API server's validation",
	},
	{
		file: "compat/internal/certify/sees.go", old: `} else if !sameDefault(a, b) && !alwaysWritten(o, name) {`, new: `} else if false {`,
		broken: "the checker of proofs forgets that a rule sees what is filled in",
	},
	{
		file: "compat/internal/certify/sees.go", old: `	case l.all:
		return seesSame(o, n, keeps)
`, new: ``,
		broken: "the checker of proofs looks only at the names in a rule that uses a whole value",
	},
	{
		file: "compat/reach.go", old: `refuses = refuses && (!g.OddAlone || g.OutOfBudget())`, new: `refuses = false`,
		broken: "refusals in another version that are not decided are taken for safe",
	},
	{
		file: "compat/journey.go", old: `if slices.ContainsFunc(was, skipsRules) {`, new: `if len(was) > 0 {`,
		broken: "what rules refuse in another version is left out where the old CRD refused the object as well",
	},
	{
		file: "compat/rule_preserve_unknown_fields_disabled.go", old: `case f.Outcome == report.Violation:`, new: `case f.Outcome != report.Undecided:`,
		broken: "a note stands for the loss of all unknown fields",
	},
	{
		file: "compat/reach.go", old: `for _, g := range c.decide(ctx, both) {`, new: `for _, g := range c.gaps[both] {`,
		broken: "of several new defaults only the simplest object that lacks them all is looked at",
	},
	{
		file: "compat/internal/certify/certify.go", old: `	if r.closed(c.accepts(x.o), goal) {`, new: `	if r.closed(c.accepts(x.o), goal) || lemma == Equal {`,
		broken: "a step of a proof is taken for verified because it claims that nothing changed",
	},
	{
		file: "compat/internal/certify/certify.go", old: `		c.refuse(s, "the proof says nothing about it")
`, new: ``,
		broken: "a proof without a step for a keyword is taken for complete",
	},
	{
		file: "compat/internal/certify/refute.go", old: `if !slices.Contains(pick[present](x), present{name: key}) {`, new: `if false {`,
		broken: "the checker of proofs does not count that the key of an item may be missing",
	},
	{
		file: "schema/upstream/ruletree.go", old: `c.cache.affords(rulesWork(n.rules))`, new: `c.cache.affords(0)`, tests: []string{"compat"},
		broken: "rules are compiled before they are charged for",
	},
	{
		file: "compat/internal/certify/refute.go", old: `if c := x.clone(); r.add(c, d) && !r.search(c) {`, new: `if c := x.clone(); r.add(c, d) && r.fuel <= 0 {`,
		broken: "the checker of proofs takes a case for closed that is open",
	},
	{
		file: "compat/internal/certify/certify.go", old: `	case (x.moved || x.filled) && x.n.node != nil && updates(x.n.node):`, new: `	case false:`,
		broken: "the checker of proofs forgets that updates may find another old value",
	},
	{
		file: "compat/internal/certify/language.go", old: `out = append(out, rune(inst.Out))`, new: `out = out[:len(out):len(out)]`,
		broken: "the checker of proofs takes every pattern of more than one letter for one that matches nothing",
	},
	{
		file: "compat/reach.go", old: `before && (!grown || g.Harm`, new: `before && (!grown || grown || g.Harm`,
		broken: "what a version refuses is taken for old news, though it dropped the field until now that makes it refuse the object",
	},
	{
		file: "compat/reach.go", old: `erases, refuses = false, before && p.to.Served`, new: `erases, refuses = false, false`,
		broken: "a gap that some objects met before is taken to concern no others",
	},
	{
		file: "compat/reach.go", old: `	if named == from || !c.work.Charge(unitsToCross) {`, new: `	if named != nil {`,
		broken: "a field that the stored version no longer declares is taken for one of the unknown fields that it always dropped",
	},
	{
		file: "compat/reach.go", old: `		gone.add(c.gapsOnTheWay(ctx, c.settled(p.from, s), p.to, s)...)
`, new: ``,
		broken: "a field that the stored version always dropped is taken for one that was stored",
	},
	{
		file: "compat/rule_scale_value_refused.go", old: `if err != nil || p.from.Name != p.to.Name || !p.from.Served {`, new: `if err == nil || p.from.Name != p.to.Name {`,
		broken: "a request that the scale subresource refuses is not told where the stored version has another value",
	},
}
