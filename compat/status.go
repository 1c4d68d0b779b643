package compat

// What changes if the status is a subresource? Requests for the object leave the status alone, and those for the status leave the rest
// alone. For example, a required status.phase refuses no creation, because the API server drops the status before it validates.

import (
	"context"
	"slices"

	"sluice.dev/schema/contain"
)

// withoutStatus returns the gaps of objects that have no status while they are validated, besides known ones. With the status subresource
// the API server drops what it has filled in for .status of a new object, or of one that it has converted
// (k8s.io/apiextensions-apiserver/pkg/registry/customresource, PrepareForCreate and PrepareForUpdate).
// A gap that is met only without a status harms writers alone, if the version stays the same.
func (c *comparison) withoutStatus(ctx context.Context, p pair, known []contain.Gap) []contain.Gap {
	bare := pair{c.afterStep(p.from, step{kind: stepDropStatus}), c.afterStep(p.to, step{kind: stepDropStatus})}
	if bare == p {
		return nil
	}
	var out []contain.Gap
	keys := gapKeys(known)
	for _, g := range c.decideHere(ctx, bare) {
		if g.Harm == contain.Redefaulted || keys.hasGap(&g) {
			continue
		}
		if g.Witness != nil && p.from.Name == p.to.Name { // a later read of the object fills the status in
			w := *g.Witness
			w.Stuck, w.Ratcheted, w.StuckErrors, w.WritersOnly = false, false, nil, true
			g.Witness, g.Worst = &w, contain.Spared
		}
		out = append(out, g)
	}
	return out
}

// inStatusWrites adds the gaps of objects whose status was written through the subresource, besides known ones. Such requests do not check
// embedded resources (statusStrategy in k8s.io/apiextensions-apiserver/pkg/registry/customresource), so that more of them are stored.
// If both versions have the subresource, both sides leave the resources unchecked.
func (c *comparison) inStatusWrites(ctx context.Context, p pair, known []contain.Gap) []contain.Gap {
	loose := pair{c.afterStep(p.from, step{kind: stepWriteStatus}), p.to}
	switch {
	case loose.from == p.from:
		return known
	case hasStatus(p.to):
		loose.to = c.afterStep(p.to, step{kind: stepWriteStatus})
	case p.from.Name == p.to.Name: // rule status-subresource-removed is about them
		return known
	}
	where := map[gapKey]int{}
	for i := range known {
		where[keyOf(&known[i])] = i
	}
	for _, g := range c.decideHere(ctx, loose) {
		i, ok := where[keyOf(&g)]
		switch {
		case !ok:
			g.StatusWrites = true
			known = append(known, g)
		case worseThan(&g, &known[i]):
			g.StatusWrites = true
			known[i] = g
		}
	}
	return known
}

// withoutUncheckedWrites leaves out the gaps of embedded resources in the status that concern only writers. With the subresource, writers of
// the status are not checked for them, and other requests leave the status as it is stored, with its defaults.
func (c *comparison) withoutUncheckedWrites(ctx context.Context, p pair, gaps []contain.Gap) []contain.Gap {
	var stored told
	return slices.DeleteFunc(slices.Clone(gaps), func(g contain.Gap) bool {
		if g.Keyword != "x-kubernetes-embedded-resource" || g.Harm != contain.Refused || !g.Path.InStatus() || !hasStatus(p.from) || !hasStatus(p.to) {
			return false
		}
		if stored == nil {
			stored = gapKeys(c.decideHere(ctx, pair{c.readBy(p.from, p.from), p.to}))
		}
		return !stored.hasGap(&g)
	})
}

// worseThan reports whether one of two gaps of the same place and keyword shows more harm.
// A gap with a witness is worse than one without. Of two witnesses, the fate of the object decides.
func worseThan(g, known *contain.Gap) bool {
	switch {
	case g.Witness == nil:
		return known.OddAlone && !g.OddAlone
	case known.Witness == nil || known.OddAlone && !g.OddAlone:
		return true
	}
	return max(g.Worst, g.Witness.Fate()) > max(known.Worst, known.Witness.Fate())
}

// withUnfilledStatus returns the gaps of objects that are stored in another version than p.to, and updated in it with any request but one
// of the status, besides known ones. The status is the stored one, which the other version has read: the defaults of p.to are not filled
// in (PrepareForUpdate in k8s.io/apiextensions-apiserver/pkg/registry/customresource; schemaCoercingConverter in pkg/apiserver).
func (c *comparison) withUnfilledStatus(ctx context.Context, p pair, known []contain.Gap) []contain.Gap {
	reader := c.readerOf(p)
	to := c.afterStep(p.to, step{kind: stepKeepStatus})
	if to == p.to || reader == nil || c.areAlike(reader, p.to) || !p.to.Served {
		return nil
	}
	// The status of these objects is the stored one, so the request cannot have filled it in.
	ways := c.asStored(c.afterStep(p.from, step{kind: stepDropStatus}), reader)
	told := gapKeys(known)
	if p.from.isOld && !p.to.isOld && p.from.Name == p.to.Name { // between versions of different names, reachable does that
		told.mergeKnown(c.unfilledBefore(ctx, p, ways))
	}
	if !p.from.isOld { // a journey begins in the old CRD
		ways = ways[:1]
	}
	var out []contain.Gap
	for i, from := range ways {
		for _, g := range c.decideHere(ctx, pair{from, to}) {
			if g.Harm != contain.Refused || told.hasGap(&g) || g.OddAlone {
				continue
			}
			if g.Witness != nil && (i > 0 || p.from.Name == p.to.Name) && !c.canTravel(ctx, p, &g) {
				continue
			}
			told.addGaps(g)
			out = append(out, g)
		}
	}
	return out
}

// unfilledBefore are the gaps that the old CRD had for such objects, given as the versions from.
// Such gaps are no news, so the caller leaves them out.
func (c *comparison) unfilledBefore(ctx context.Context, p pair, from []*part) told {
	was := told{}
	before := findVersion(c.oldParts, p.to.Name)
	if before == nil || !before.Served {
		return was
	}
	to := before
	if r := c.readerOf(pair{p.from, before}); r != nil && r.Name != before.Name {
		to = c.afterStep(before, step{kind: stepKeepStatus})
	}
	for _, f := range from {
		was.addGaps(c.decideHere(ctx, pair{f, to})...)
	}
	return was
}

// readerOf returns the version that reads the objects written in p.from before they are updated in p.to; nil if that is not known.
func (c *comparison) readerOf(p pair) *part {
	switch {
	case p.to.isOld && len(c.oldConversions) > 0, !p.to.isOld && len(c.newConversions) > 0:
		return nil
	case !p.from.isOld:
		return storageVersionOf(c.newParts)
	case p.to.isOld:
		return c.storingVersion(p.from)
	}
	return c.readingVersion(p.from)
}
