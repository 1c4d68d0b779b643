package compat

// What happens to an object that a client writes in one version and another client reads or writes back in another version? Without a webhook
// the API server changes only the apiVersion, prunes, and fills in defaults. For example, v1 accepts name: "" and v2 demands a character: a
// client that reads the object as v2 cannot write it back.

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/version"

	"sluice.dev/schema/contain"
)

// describeClash says what happens to objects between the two versions.
// It speaks of may and of a cause as far as these are known, because a reader has to know which version to change.
func (x *crossing) describeClash() string {
	unknown := x.Verdict == contain.Unknown
	switch {
	case x.labels:
		return "a rule of " + x.to.Name + " may refuse to set a label on objects written as " + x.from.Name + ", because these lack the defaults of " + x.to.Name
	case x.updates && unknown:
		return "a rule of " + x.to.Name + " may refuse updates that it allowed before, because the stored object has other defaults"
	case x.updates && x.filler != nil:
		return "the default in " + x.filler.Name + " makes " + x.to.Name + " refuse updates of objects written as " + x.from.Name
	case x.updates:
		return x.to.Name + " refuses updates of objects written as " + x.from.Name
	case x.filler != nil && unknown:
		return "defaults of " + x.filler.Name + " may make " + x.to.Name + " refuse objects written as " + x.from.Name
	case x.filler != nil:
		return "the default in " + x.filler.Name + " makes " + x.to.Name + " refuse objects written as " + x.from.Name
	case unknown:
		return "objects written as " + x.from.Name + " may not fit " + x.to.Name
	}
	return "objects written as " + x.from.Name + " do not fit " + x.to.Name
}

// reachableCrossings finds the crossings, once.
func (c *comparison) reachableCrossings(ctx context.Context) crossings {
	return c.crossed.answerOf(func() (found crossings) {
		if c.hasBothCRDs() && len(c.newConversions) == 0 {
			c.findCrossings(ctx, &found)
		}
		return found
	})
}

// findCrossings asks of each version of the new CRD what happens in it to objects of the others. known are the gaps
// that a finding tells already, was those that the old CRD had, and spared those that no written object meets. The
// order decides which version a finding names: the storage version comes first among the writers, and versions that
// are alike count once. If the budget is spent, one crossing without a verdict stands for all that is left.
func (c *comparison) findCrossings(ctx context.Context, out *crossings) {
	moved := told{}
	moved.addGaps(c.storageGaps(ctx)...)
	for _, to := range c.newParts {
		if !to.Served && !to.Storage && !c.isStored(to.Name) || to.buildSchema() != nil {
			continue
		}
		known, was := c.knownTo(ctx, to), sync.OnceValue(func() told { return c.toldBefore(ctx, to) })
		if to.Storage {
			known.mergeKnown(moved)
		}
		spared := told{}
		for _, from := range c.distinctVersions(c.writtenVersions(), to) {
			p := pair{from, to}
			switch {
			// Nobody writes in such a version, and nothing is read by it.
			case !to.Served && to != c.readingVersion(from) && !c.storedAnew(to):
			case !c.affordsCrossing(p, out):
				return
			// The comparison of the version with itself has told all but what later writes add.
			case from.Name == to.Name && to == c.readingVersion(from):
				c.crossAgain(ctx, p, known, was, out)
			default:
				spared.mergeKnown(c.crossOld(ctx, p, known, was, out))
				c.crossAgain(ctx, p, known, was, out)
			}
		}
		known.mergeKnown(spared)
		c.crossUpdates(ctx, to, known, out)
		for _, from := range c.distinctVersions(servedVersionsOf(c.newParts), to) {
			switch {
			case from.Name == to.Name || from.buildSchema() != nil:
			case !c.affordsCrossing(pair{from, to}, out):
				return
			default:
				c.crossNew(ctx, pair{from, to}, known, was, out)
			}
		}
	}
}

// stopsWriteBack reports whether a gap is in the way of objects that are read and written back as they are. Of rules about updates, those that
// refuse even that.
func stopsWriteBack(g *contain.Gap) bool {
	return g.Harm == contain.Pruned || g.Harm == contain.Refused || g.Harm == contain.RefusedTransition && (g.Witness == nil || g.Witness.Old == nil)
}

// unitsToCross is the work of looking at a pair of versions, without that of its comparison, for each version there is.
const unitsToCross = 2

// affordsCrossing charges for a pair of versions. If the budget is spent, the pair stands for all that are left.
func (c *comparison) affordsCrossing(p pair, out *crossings) bool {
	if c.work.Charge(int64(len(c.oldParts)+len(c.newParts)) * unitsToCross) {
		return true
	}
	out.refused = append(out.refused, crossing{pair: p, Gap: contain.Gap{Keyword: "schema", Verdict: contain.Unknown, Reason: contain.TooMuch, Rule: -1}})
	return false
}

// crossOld looks at what objects written in an old version meet in a new one. What it finds is known from then on. What was a gap
// of the old CRD is news only where an object now keeps what was dropped of it before. It returns the gaps that no object written in
// this version meets.
// Three causes are looked at one after the other: defaults that reading fills in, the conversion itself, and errors
// that ratcheting tolerated so far. A gap that one of them reports is not reported again.
func (c *comparison) crossOld(ctx context.Context, p pair, known told, was func() told, out *crossings) (spared told) {
	home, ok := c.builtHome(p.from)
	if !ok {
		return nil
	}
	c.crossFilled(ctx, p, home, known, was, out)
	if p.from.Name != p.to.Name && (c.storageMoves() || !c.sameAsBefore(p.from, p.to)) {
		spared = c.crossConverted(ctx, p, home, known, was, out)
	}
	c.crossTolerated(ctx, p, home, known, was, out)
	return spared
}

// crossConverted is crossOld but for defaults that are filled in and errors that are tolerated.
func (c *comparison) crossConverted(ctx context.Context, p pair, home *part, known told, was func() told, out *crossings) (spared told) {
	own := c.toldOfItself(ctx, p.from)
	addFilled(p, p.to, c.unlikeDefaults(ctx, p, home), known, was, out)
	spared, grown := told{}, c.mayKeepAt(ctx, p, home)
	for i, stored := range c.asStored(p.from, home) {
		for _, g := range c.gapsOnTheWay(ctx, stored, p.to, p.to) {
			if known.hasGap(&g) || own.hasGap(&g) || !stopsWriteBack(&g) {
				continue
			}
			before, lost := was().hasGap(&g), c.lostAnew(ctx, p, &g)
			switch {
			case before && !lost && !grown(&g): // see crossTolerated
			case c.addCrossing(ctx, crossing{pair: p, Gap: g, anew: lost && before}, before, out):
				known.addGaps(g)
			case i == 0: // what others write may get there
				spared.addGaps(g)
			}
		}
	}
	return spared
}

// crossAgain looks at what the objects meet once they were written under the new CRD: the version of that write has filled them in, and so
// does the new storage version since then. A version that the old CRD did not serve is left out: rule added-in-one-version is about its
// clients.
// The first write under the new CRD changes what is stored: the version of the writer fills in its defaults, and from
// then on the new storage version reads. Each of these versions may be the one whose default another version refuses.
func (c *comparison) crossAgain(ctx context.Context, p pair, known told, was func() told, out *crossings) {
	home, ok := c.builtHome(p.from)
	if !ok {
		return
	}
	for _, filler := range c.newParts {
		writes := c.stillServed(filler) && !c.areAlike(filler, p.to)
		if (filler.Storage || writes) && !c.areAlike(filler, home) && filler.buildSchema() == nil {
			c.crossFilled(ctx, p, filler, known, was, out)
		}
	}
}

// stillServed reports whether both CRDs serve the version.
func (c *comparison) stillServed(p *part) bool {
	before := findVersion(c.oldParts, p.Name)
	return p.Served && before != nil && before.Served
}

// crossFilled adds what objects meet because of the defaults of the version that reads them.
func (c *comparison) crossFilled(ctx context.Context, p pair, reader *part, known told, was func() told, out *crossings) {
	addFilled(p, reader, c.filledIn(ctx, p, reader), known, was, out)
}

// addFilled adds gaps that come of the defaults of a version, unless they are known or not new.
func addFilled(p pair, filler *part, gaps []contain.Gap, known told, was func() told, out *crossings) {
	for _, g := range gaps {
		if !known.hasGap(&g) && !was().hasGap(&g) {
			known.addGaps(g)
			out.refused = append(out.refused, crossing{pair: p, Gap: g, filler: filler})
		}
	}
}

// toldOfItself returns the gaps that Sluice reports between an old version and the new version of the same name.
func (c *comparison) toldOfItself(ctx context.Context, from *part) told {
	own := told{}
	if same := findVersion(c.newParts, from.Name); same != nil {
		for _, g := range c.decidePair(ctx, pair{from, same}) {
			if same.Served || c.readFromStorage(pair{from, same}, &g) {
				own.addGaps(g)
			}
		}
	}
	return own
}

// addCrossing sorts a crossing by its harm, and reports whether it does any; before tells whether some objects met the gap in the old CRD.
// A gap with a witness counts only if an object makes the journey: this one, one without the fields that are pruned
// on the way, or one that the old CRD tolerated. If there is none, the gap is undecided where objects met it before,
// and left out otherwise.
func (c *comparison) addCrossing(ctx context.Context, x crossing, before bool, out *crossings) bool {
	p, g := x.pair, &x.Gap
	erases, refuses := g.Harm == contain.Pruned, g.Harm != contain.Pruned && (p.to.Served || isDataDropped(g))
	switch {
	case g.Verdict == contain.Unknown:
		erases = erases && (p.from.Storage || g.OutOfBudget())
		refuses = refuses && (!g.OddAlone || g.OutOfBudget())
	case c.canTravel(ctx, p, g):
	case refuses && c.travelsOtherwise(ctx, &x):
	case refuses && c.takeToleratedBefore(ctx, &x):
	case refuses && strings.HasPrefix(g.Keyword, "x-kubernetes-list-") && anyPlaceIn(p.to.props, c.fillsOn(p), g.Path):
		x.Verdict, x.Witness, x.Reason = contain.Unknown, nil, "a default of "+p.to.Name+" may make items equal, and no such object was found"
	default:
		// This object was refused before, others were not for sure.
		erases, refuses = false, before && p.to.Served
		x.Verdict, x.Reason, x.Witness = contain.Unknown, "the old CRD refused some objects there, and dropped fields of others that the new one keeps", nil
	}
	switch {
	case erases:
		out.erased = append(out.erased, x)
	case refuses:
		out.refused = append(out.refused, x)
	}
	return erases || refuses
}

// crossNew looks at what objects that only the new CRD can hold, written in one of its versions, meet in another one.
// No stored object is harmed, so these become warnings. A refusal of objects before their defaults are
// filled in is left out, because a default may mend it.
func (c *comparison) crossNew(ctx context.Context, p pair, known told, was func() told, out *crossings) {
	stored := storageVersionOf(c.newParts)
	if c.sameAsBefore(p.from, p.to) && !c.storageMoves() || fitsWithoutQuestion(p.from, stored, p.to) {
		return
	}
	for i, from := range c.asStored(p.from, stored) {
		for _, g := range c.decidePair(ctx, pair{from, p.to}) {
			harms := g.Harm == contain.Pruned || p.to.Served && i == 0 // a default may mend what is refused without it
			if g.Verdict == contain.NotContained && stopsWriteBack(&g) && harms && !known.hasGap(&g) && !was().hasGap(&g) {
				known.addGaps(g)
				out.onesided = append(out.onesided, crossing{pair: p, Gap: g})
			}
		}
	}
}

// filledIn are the gaps of defaults that the new CRD fills in when it reads what the old one stored, and that the version
// in which it is read refuses, which may be the one in which it was written.
// First each simplest object that lacks one default makes the journey. Then the prover looks for objects that are
// refused only together with the default, such as by a rule about two fields.
func (c *comparison) filledIn(ctx context.Context, p pair, home *part) []contain.Gap {
	if !p.to.Served || !c.fillsAnew(p.from, home) {
		return nil
	}
	lacking := c.objectsLackingDefaults(ctx, p.from, home)
	if len(lacking) == 0 {
		return nil
	}
	var out []contain.Gap
	told := map[string]bool{}
	filled := func(g *contain.Gap) bool {
		j, err := c.makeJourney(ctx, p, home, g.Witness.Object)
		j.filled = slices.DeleteFunc(j.filled, func(e string) bool { return !j.ofRules[e] && !followsFromFilled(e, lacking) })
		if err != nil || !slices.ContainsFunc(j.filled, func(e string) bool { return !told[e] }) {
			return false
		}
		for _, e := range j.filled {
			told[e] = true
		}
		g.Witness = &contain.Witness{Object: g.Witness.Object, Errors: j.filled}
		return true
	}
	// A finding about a default names the place of that default.
	blame := func(g contain.Gap, w *contain.Witness) {
		// What is refused may be another default than the one that was asked about.
		if i := slices.IndexFunc(lacking, func(l contain.Gap) bool { return speakOf(w.Errors, &l) }); i >= 0 {
			g = lacking[i]
		}
		g.Keyword, g.Path, g.Detail, g.Witness = "default", fullPath(&g), "", w
		out = append(out, g)
	}
	for _, g := range lacking { // the simplest object that lacks a field
		if g.Witness != nil && filled(&g) {
			blame(g, g.Witness)
		}
	}
	// These are the objects of one version that another one takes as they are, and that other version with the defaults that a third one
	// fills in before.
	both := pair{c.afterSteps(p.from, step{stepRead, p.from}, step{stepAccept, p.to}), c.afterStep(p.to, step{stepFill, home})}
	for _, g := range c.decidePair(ctx, both) { // then any that the version refuses only once they are filled in
		switch {
		case g.Harm != contain.Refused:
			continue
		case g.Witness == nil:
			if !gapKeys(c.decidePair(ctx, pair{both.from, p.to})).hasGap(&g) { // what is undecided without the defaults is not about them
				out = append(out, g)
			}
			continue
		}
		i := slices.IndexFunc(lacking, func(l contain.Gap) bool {
			return hasValueAt(g.Witness.Object, l.Path) && !hasValueAt(g.Witness.Object, fullPath(&l))
		})
		if filled(&g) {
			blame(lacking[max(i, 0)], g.Witness)
		}
	}
	return out
}

// fillsAnew reports whether the new version may fill in, in objects of an old version, what nobody filled in before.
func (c *comparison) fillsAnew(from, home *part) bool {
	before := findVersion(c.oldParts, home.Name)
	return before == nil || !isUnchangedSchema(before, home) || home != c.readingVersion(from) && c.storageMoves() // what was filled in may have been dropped then
}

// followsFromFilled reports whether an error, not of a rule, may come of one of the fields that are filled in: it is about the field, something in it
// or around it.
func followsFromFilled(e string, filled []contain.Gap) bool {
	path, _, _ := strings.Cut(e, ": ")
	return path == "<nil>" || slices.ContainsFunc(filled, func(g contain.Gap) bool {
		a, b := withoutIndexes(path), withoutIndexes(strings.TrimPrefix(fullPath(&g).String(), "."))
		return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
	})
}

// speakOf reports whether one of some errors is about the place of a gap.
func speakOf(errs []string, g *contain.Gap) bool {
	return slices.ContainsFunc(errs, func(e string) bool { path, _, _ := strings.Cut(e, ": "); return isPathOfGap(path, g) })
}

var indexOrKey = regexp.MustCompile(`\[[^\]]*\]|\.\*`)

// withoutIndexes leaves the names of a path, each with a dot behind it.
func withoutIndexes(path string) string { return indexOrKey.ReplaceAllString(path, "") + "." }

// hasValueAt reports whether the object has something at the path, or at one below lists and maps, which is not looked into.
func hasValueAt(obj any, path contain.Path) bool {
	for _, s := range path {
		m, _ := obj.(map[string]any)
		below, ok := m[s.Name]
		if s.Kind != contain.Field || !ok {
			return false
		}
		obj = below
	}
	return true
}

// unlikeDefaults are the defaults of the version p.to because of which its rules about updates refuse objects of the other one, though
// nothing of them changes: what is read is converted and not filled in, and what is written back is.
func (c *comparison) unlikeDefaults(ctx context.Context, p pair, home *part) []contain.Gap {
	if !p.to.Served || !hasTransitions(p.to.props) {
		return nil
	}
	var out []contain.Gap
	for _, stored := range c.asStored(p.from, home) {
		for _, g := range c.objectsLackingDefaults(ctx, stored, p.to) {
			if g.Witness == nil {
				continue
			}
			j, err := c.makeJourney(ctx, p, home, g.Witness.Object)
			if err != nil || len(j.updates) == 0 {
				continue
			}
			g.Witness = &contain.Witness{Object: g.Witness.Object, Errors: j.updates}
			g.Keyword, g.Path, g.Detail = "default", fullPath(&g), ""
			out = append(out, g)
		}
	}
	return out
}

// hasTransitions reports whether a rule of the schema mentions oldSelf.
// Rules on items and values count too.
func hasTransitions(p *props) bool {
	return anyBelow(p, func(s *props) bool {
		return slices.ContainsFunc(s.XValidations, func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, "oldSelf") })
	})
}

// objectsLackingDefaults are objects of one version that lack something which the other one fills in, as gaps of required, one for each field. A gap
// without a witness is a field of which it could not be decided.
func (c *comparison) objectsLackingDefaults(ctx context.Context, from, to *part) []contain.Gap {
	asking := requireFilledByReader(from.props, to.props, 0)
	if asking == from.props || from.buildSchema() != nil {
		return nil
	}
	o := c.containOptions(from)
	o.Only = func(g *contain.Gap) bool { return g.Keyword == "required" }
	side, err := contain.NewSide(asking)
	if err != nil {
		return nil // cannot be: it is a schema that passed, with more names in required
	}
	return contain.Decide(ctx, from.side, side, o).Gaps
}

// writtenVersions are the old versions in which objects may have been written or stored, the storage version first. What a webhook
// made of a write in another version is not known.
func (c *comparison) writtenVersions() []*part { return c.writing.answerOf(c.findWrittenVersions) }

// findWrittenVersions lists the served versions and those that may hold objects. Under a webhook only the latter
// count. If the storage version was another one once, each served version appears again for the objects that were
// stored then: the old storage version pruned them.
func (c *comparison) findWrittenVersions() []*part {
	var out []*part
	for _, p := range c.oldParts {
		if p.Served && len(c.oldConversions) == 0 || c.isStored(p.Name) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b *part) int {
		switch {
		case a.Storage == b.Storage:
			return 0
		case a.Storage:
			return -1
		}
		return 1
	})
	for _, s := range c.oldParts {
		if s.Storage || !c.isStored(s.Name) || len(c.oldConversions) > 0 {
			continue
		}
		for _, p := range servedVersionsOf(c.oldParts) {
			before := p.withSchema(p.props)
			before.storedIn = s.Name
			out = append(out, before)
		}
	}
	return out
}

// storingVersion is the old version in which objects written in an old version are stored, nil if that is not known.
func (c *comparison) storingVersion(from *part) *part {
	if s := storageVersionOf(c.oldParts); from.Served && s != nil && len(c.oldConversions) == 0 && from.storedIn == "" {
		return s
	}
	return findVersion(c.oldParts, cmp.Or(from.storedIn, from.Name))
}

// readingVersion is the version of the new CRD by which objects written in an old version are read: that of the old version that stores them.
// nil if the new CRD lacks it.
func (c *comparison) readingVersion(from *part) *part {
	if s := c.storingVersion(from); s != nil {
		from = s
	}
	return findVersion(c.newParts, from.Name)
}

// distinctVersions leaves out versions that are alike, and stored in the same version or in versions that are alike. Of those like to, the one
// of that name stays, which the comparison of to with itself covers.
// Of two versions that are alike the first stands for both, so that a finding comes once for v1alpha1 and v1beta1
// with one schema.
func (c *comparison) distinctVersions(versions []*part, to *part) []*part {
	var out []*part
	at := map[[2]string]int{} // by the first names of the versions that are alike
	for _, v := range versions {
		key := [2]string{c.firstNameAlike(v.Name), c.firstNameAlike(v.storedIn)}
		i, known := at[key]
		switch {
		case !known:
			at[key] = len(out)
			out = append(out, v)
		case v.Name == to.Name:
			out[i] = v
		}
	}
	return out
}

// builtHome is home, if the prover can read both versions.
func (c *comparison) builtHome(from *part) (home *part, ok bool) {
	home = c.readingVersion(from)
	return home, home != nil && home.buildSchema() == nil && from.buildSchema() == nil
}

// knownTo are the gaps that the comparison of a version of the new CRD with itself tells.
func (c *comparison) knownTo(ctx context.Context, to *part) told {
	known := told{}
	if before := findVersion(c.oldParts, to.Name); before != nil && (before.Served || c.isStored(before.Name)) {
		known.addGaps(c.decidePair(ctx, pair{before, to})...)
	}
	return known
}

// toldBefore are the gaps that the old CRD had between a version and its others.
// Such gaps are no harm of the upgrade: clients of these versions lived with them. It is empty for a version that the
// old CRD did not serve.
func (c *comparison) toldBefore(ctx context.Context, to *part) told {
	was := told{}
	before := findVersion(c.oldParts, to.Name)
	if before == nil || !before.Served || len(c.oldConversions) > 0 || before.buildSchema() != nil {
		return was
	}
	for _, from := range c.distinctVersions(c.writtenVersions(), to) {
		if from.Name != before.Name && from.buildSchema() == nil && c.work.Charge(unitsToCross) {
			was.addGaps(c.gapsOfStored(ctx, from, c.storingVersion(from), to, before)...)
		}
	}
	return was
}

// gapsOfStored are the gaps on the way of all that is stored of a version and read by reader.
func (c *comparison) gapsOfStored(ctx context.Context, from, reader, to, in *part) (gaps []contain.Gap) {
	for _, stored := range c.asStored(from, reader) {
		gaps = append(gaps, c.gapsOnTheWay(ctx, stored, to, in)...)
	}
	return gaps
}

// gapsOnTheWay returns the gaps between what version from writes and version in. in is version to, or the version that the old CRD had
// in place of to. If only one of the two drops unknown fields, each such field is compared by its name.
// A schema that keeps unknown fields says nothing of their names. If another version declares them, the question is
// asked once more with these names declared, so that the loss of a known field is told by its name.
func (c *comparison) gapsOnTheWay(ctx context.Context, from, to, in *part) []contain.Gap {
	gaps := c.decidePair(ctx, pair{from, in})
	named := c.afterStep(from, step{stepNameUnknown, to})
	if named == from || !c.work.Charge(unitsToCross) {
		return gaps
	}
	known := gapKeys(gaps)
	gaps = slices.Clone(gaps)
	for _, g := range c.decidePair(ctx, pair{named, in}) {
		if g.Harm == contain.Pruned && !known.hasGap(&g) {
			gaps = append(gaps, g)
		}
	}
	return gaps
}

// keptNow are the places of fields that the old CRD dropped when what was written in one version was read in the other one, and
// that the new CRD keeps. What the old storage version dropped was never stored.
func (c *comparison) keptNow(ctx context.Context, p pair, home *part) []contain.Path {
	before := findVersion(c.oldParts, p.to.Name)
	if before == nil || !before.Served || before == p.from || len(c.oldConversions) > 0 || before.buildSchema() != nil {
		return nil
	}
	gone := gapKeys(c.gapsOfStored(ctx, p.from, home, p.to, p.to))
	if s := c.storingVersion(p.from); s != nil && s.Name != p.from.Name {
		gone.addGaps(c.gapsOfStored(ctx, p.from, s, p.to, s)...)
	}
	var out []contain.Path
	for _, g := range c.gapsOfStored(ctx, p.from, c.storingVersion(p.from), p.to, before) {
		if g.Harm == contain.Pruned && !gone.hasGap(&g) {
			out = append(out, g.Path)
		}
	}
	return out
}

// mayKeepAt returns whether an object may keep now, at a gap, what the old CRD dropped of it.
func (c *comparison) mayKeepAt(ctx context.Context, p pair, home *part) func(g *contain.Gap) bool {
	kept := sync.OnceValue(func() []contain.Path { return c.keptNow(ctx, p, home) })
	return func(g *contain.Gap) bool {
		return (g.Harm != contain.Pruned || g.Keyword != "nullable") &&
			slices.ContainsFunc(kept(), func(path contain.Path) bool { return mayBeNested(path, g.Path) })
	}
}

// mayBeNested reports whether one of two places may be the other, or around it.
// An item and a value stand for any item or value, so that they match each name.
func mayBeNested(a, b contain.Path) bool {
	for i := range min(len(a), len(b)) {
		if a[i].Kind == contain.Field && b[i].Kind == contain.Field && a[i].Name != b[i].Name {
			return false
		}
	}
	return true
}

// sameAsBefore reports whether the old CRD served the version to and had both, with the same meaning.
func (c *comparison) sameAsBefore(from, to *part) bool {
	o, n := findVersion(c.oldParts, from.Name), findVersion(c.newParts, from.Name)
	before := findVersion(c.oldParts, to.Name)
	return o != nil && n != nil && before != nil && before.Served && len(c.oldConversions) == 0 && isUnchangedSchema(o, n) && isUnchangedSchema(before, to)
}

// fitsWithoutQuestion reports whether what is written in one version and stored in another one fits the third without a question: all three say
// the same, so that no default is filled in later. A rule may say something else of each version by its apiVersion.
func fitsWithoutQuestion(from, stored, to *part) bool {
	return stored != nil && isUnchangedSchema(from, to) && isUnchangedSchema(stored, to) && !mindsVersion(to.props)
}

// preferredVersionOf is the served version that discovery names first, and kubectl uses.
// By the order of Kubernetes, v2 comes before v1, v1 before v2beta1, and that before v1alpha1.
func preferredVersionOf(ps []*part) *part {
	all := servedVersionsOf(ps)
	if len(all) == 0 {
		return nil
	}
	return slices.MaxFunc(all, func(a, b *part) int { return version.CompareKubeAwareVersionStrings(a.Name, b.Name) })
}
