package compat

// What does a new storage version lose? Each write stores an object in that version, which drops the fields that it does not know,
// whichever version the client used. For example, v2 becomes the storage version and has no spec.b: the next label that a client sets
// through v1 erases spec.b.

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
)

// storedAnew reports whether a version of the new CRD stores objects and did not store them before. Fields that it does not know are then
// lost with each write, in every version.
func (c *comparison) storedAnew(p *part) bool { return p.Storage && c.storageMoves() }

// droppedBefore are the gaps between an old version and the old storage version.
// It is empty if from was the storage version itself: the API server stored all that it wrote.
func (c *comparison) droppedBefore(ctx context.Context, from *part) told {
	if s := storageVersionOf(c.oldParts); s != nil && s.Name != from.Name && s.buildSchema() == nil {
		return gapKeys(c.decidePair(ctx, pair{from, s}))
	}
	return told{}
}

// lostAnew reports whether the new storage version drops data that the old one kept, and that some other served version keeps.
func (c *comparison) lostAnew(ctx context.Context, p pair, g *contain.Gap) bool {
	return isDataDropped(g) && c.storedAnew(p.to) && !c.droppedBefore(ctx, p.from).hasGap(g) && slices.ContainsFunc(c.newParts, func(w *part) bool {
		return c.stillServed(w) && w != p.to && w.buildSchema() == nil && !gapKeys(c.decidePair(ctx, pair{p.from, w})).hasGap(g)
	})
}

// comparesAnew are the places where a written value differs from the old one under the new CRD alone, though the client changes nothing.
// The version p.to fills in a default there that the old value lacks, or no longer knows the field. The API server tolerates errors in
// unchanged values only, so it now refuses errors in the values around these places (ratchetingValueValidator in
// k8s.io/apiextensions-apiserver/pkg/apiserver/validation).
func (c *comparison) comparesAnew(p pair, home *part) []contain.Path {
	before := findVersion(c.oldParts, p.to.Name)
	if !upstream.RatchetsIn(c.opts.KubeVersion) || before == nil || !before.Served || before.props == nil || !p.to.Served {
		return nil
	}
	out := undeclaredPlaces(before.props, p.to.props, nil)
	add := func(readBefore, readNow *part) {
		known := c.fillsAfterRead(pair{p.from, before}, readBefore)
		for _, at := range c.fillsAfterRead(p, readNow) {
			if c.comesAnew(home, at) || !slices.ContainsFunc(known, func(k contain.Path) bool { return slices.Equal(k, at) }) {
				out = append(out, at)
			}
		}
	}
	add(c.storingVersion(p.from), home)
	if s := storageVersionOf(c.newParts); s != nil && s != home { // it reads them once they are written back
		add(storageVersionOf(c.oldParts), s)
	}
	if len(c.fillsAfterRead(p, home)) > 0 { // the values differ as before, and have more in them
		out = append(out, c.filledAnewBy(p.from, home)...)
	}
	return out
}

// filledAnewBy are the places of defaults that the version home fills in when it reads objects of an old version, and did not fill in before.
// It is nil if the old CRD lacks the version home: then there was no reading by it that could have filled in less.
func (c *comparison) filledAnewBy(from, home *part) []contain.Path {
	if before := findVersion(c.oldParts, home.Name); before != nil {
		return fillsAlone(home.props, from.props, before.props, nil)
	}
	return nil
}

// fillsOn are the places of defaults of the version p.to that objects written in p.from lack.
func (c *comparison) fillsOn(p pair) []contain.Path {
	return c.fillsAfterRead(p, c.readingVersion(p.from))
}

// fillsAfterRead are the places of defaults of the version p.to that objects written in p.from lack when the version reader has read them, and
// of defaults of reader that p.to keeps as unknown fields.
func (c *comparison) fillsAfterRead(p pair, reader *part) []contain.Path {
	if reader == p.to { // it has filled in all of its own
		return nil
	}
	filler, stored := cmp.Or(reader, p.from), c.readBy(p.from, reader)
	for _, by := range []*part{c.storingVersion(p.from), reader} {
		if by != nil {
			stored = c.afterStep(stored, step{stepConvert, by})
		}
	}
	return append(fillsAlone(p.to.props, stored.props, filler.props, nil), strangeFills(p.to.props, filler.props, nil)...)
}

// comesAnew reports whether a value around a place has a default that it did not have: then more objects have the place than before. home
// is the version that reads them.
func (c *comparison) comesAnew(home *part, at contain.Path) bool {
	for i := range at {
		for _, w := range c.newParts {
			old := findVersion(c.oldParts, w.Name)
			if (w == home || w.Storage || w.Served) && fillsIn(propsAt(w.props, at[:i])) && (old == nil || !fillsIn(propsAt(old.props, at[:i]))) {
				return true
			}
		}
	}
	return false
}

// anyPlaceIn reports whether one of the places lies in the value of p at a path, or in a list around it whose items are not compared one by
// one: those of a list without keys.
// For example, an item of a list without keys is compared only as a part of the whole list, so that a default in any
// of its items makes the list another value.
func anyPlaceIn(p *props, places []contain.Path, path contain.Path) bool {
	for i, step := range path {
		if l := propsAt(p, path[:i]); step.Kind == contain.AnyItem && (l == nil || l.XListType == nil || *l.XListType != "map") {
			path = path[:i]
			break
		}
	}
	return slices.ContainsFunc(places, func(at contain.Path) bool { return len(at) > len(path) && mayBeNested(at[:len(path)], path) })
}

// crossTolerated looks at errors that objects have met in the old CRD too, which tolerated them in values that stay the same.
// Two ways lead from tolerated to refused. A default or an unknown field makes the value another one than before, or
// a rule that is new ends in an error for a value that was tolerated. The first is the matter of places, the second
// that of anew.
func (c *comparison) crossTolerated(ctx context.Context, p pair, home *part, known told, was func() told, out *crossings) {
	places, anew := c.comparesAnew(p, home), p.from.Name != p.to.Name && c.rulesAnew(p.to)
	var gaps []contain.Gap
	if len(places) > 0 || anew {
		gaps = c.gapsOfStored(ctx, p.from, home, p.to, p.to)
	}
	if len(places) > 0 {
		gaps = append(gaps, c.decidePair(ctx, pair{c.wayHome(p.from), p.to})...)
	}
	for _, g := range gaps {
		tolerated := g.Harm == contain.Refused && !known.hasGap(&g) && (p.from.Name == p.to.Name || was().hasGap(&g))
		switch x := (crossing{pair: p, Gap: g, filler: p.to}); {
		case !tolerated:
		case anyPlaceIn(p.to.props, places, g.Path) && c.addTolerated(ctx, x, out):
			known.addGaps(g)
		case anew && c.meetsNewRule(ctx, &x):
			out.refused = append(out.refused, x)
			known.addGaps(g)
		}
	}
}

// rulesAnew reports whether a version has rules that the old CRD did not have there.
func (c *comparison) rulesAnew(to *part) bool {
	before := findVersion(c.oldParts, to.Name)
	return before != nil && before.Served && to.Served && upstream.RatchetsIn(c.opts.KubeVersion) && !isUnchangedSchema(before, to) && hasRules(to.props)
}

// hasRules reports whether there is a rule in the schema.
func hasRules(p *props) bool {
	return anyBelow(p, func(s *props) bool { return len(s.XValidations) > 0 })
}

// meetsNewRule reports whether the witness of a tolerated error makes a rule end in an error, which the API server tolerates nowhere: a rule
// about a text, for example, and a stored number. It takes over the errors.
func (c *comparison) meetsNewRule(ctx context.Context, x *crossing) bool {
	if x.Witness == nil || x.Keyword != "type" {
		return false
	}
	j, err := c.journeyWith(ctx, x.pair, c.readingVersion(x.from), x.Witness.Object, true)
	if err != nil || len(j.errors) == 0 {
		return false
	}
	x.Witness, x.filler = &contain.Witness{Object: x.Witness.Object, Errors: j.errors}, nil
	return true
}

// addTolerated adds a crossing with an error that the old CRD tolerated, and reports whether the new one may not.
func (c *comparison) addTolerated(ctx context.Context, x crossing, out *crossings) bool {
	if !c.takeToleratedBefore(ctx, &x) {
		if x.OddAlone {
			return false
		}
		x.Verdict, x.Witness = contain.Unknown, nil
		x.Reason = "the API server tolerated the error as long as the value stayed the same; " + x.to.Name +
			" now fills in a default there or no longer knows a field, and no object was found that it refuses"
	}
	out.refused = append(out.refused, x)
	return true
}

// takeToleratedBefore looks for an object that the old CRD alone tolerates, as the witness of a crossing, and reports whether there is one. An
// object that lacks a default of the version that reads it differs from the old value, or has more in it now.
// The objects that are tried are the witness, the witness without a default that is new, and the objects that lack
// the defaults of the versions that may fill them in. Ratcheting is KEP-4008; API servers without it tolerate
// nothing, so there is nothing to look for.
func (c *comparison) takeToleratedBefore(ctx context.Context, x *crossing) bool {
	if !upstream.RatchetsIn(c.opts.KubeVersion) {
		return false
	}
	home := c.readingVersion(x.from)
	var objs []map[string]any
	if x.Witness != nil {
		objs = append(objs, x.Witness.Object)
		for _, at := range c.filledAnewBy(x.from, home) {
			objs = append(objs, withoutFieldAt(x.Witness.Object, at))
		}
	}
	for _, filler := range []*part{x.to, home} {
		for _, g := range c.objectsLackingDefaults(ctx, x.from, filler) {
			if g.Witness != nil {
				objs = append(objs, g.Witness.Object)
			}
		}
	}
	for _, obj := range objs {
		j, err := c.journeyWith(ctx, x.pair, home, obj, true)
		if err == nil && j.refusesAt(&x.Gap) {
			x.Verdict, x.Witness, x.filler = contain.NotContained, &contain.Witness{Object: obj, Errors: j.errors}, x.to
			if x.Before == x.After { // the rule is an old one
				x.Before = nil
			}
			return true
		}
	}
	return false
}

// withoutFieldAt returns the object without the field at a path of fields.
// A path that leads through a list or a map leaves the object as it is.
func withoutFieldAt(obj map[string]any, path contain.Path) map[string]any {
	if len(path) == 0 || path[0].Kind != contain.Field {
		return obj
	}
	out := maps.Clone(obj)
	if below, ok := obj[path[0].Name].(map[string]any); ok && len(path) > 1 {
		out[path[0].Name] = withoutFieldAt(below, path[1:])
	} else if len(path) == 1 {
		delete(out, path[0].Name)
	}
	return out
}
