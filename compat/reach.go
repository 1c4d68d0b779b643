package compat

import (
	"context"
	"errors"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"

	"sluice.dev/schema"
	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
)

// crossing is a gap between two versions of different names that nothing converts between.
type crossing struct {
	pair
	contain.Gap
}

// crossings are what becomes of objects that one version holds once they are read and written back in another one
// (docs/containment.md, Several versions without a webhook).
type crossings struct {
	// erased and refused concern objects that the old CRD can hold, onesided those that only the new one can.
	erased, refused, onesided []crossing
}

// reachable finds the crossings, once.
func (c *comparison) reachable(ctx context.Context) *crossings {
	if c.crossed == nil {
		c.crossed = &crossings{}
		if c.both() && !converts(c.new) {
			c.findCrossings(ctx, c.crossed)
		}
	}
	return c.crossed
}

func (c *comparison) findCrossings(ctx context.Context, out *crossings) {
	moved := told{}
	moved.add(c.storageGaps(ctx)...)
	for _, to := range c.newParts {
		if !to.Served && !to.Storage || to.build() != nil {
			continue
		}
		known := c.knownTo(ctx, to)
		if to.Storage {
			known.merge(moved)
		}
		for _, from := range c.writers() {
			if from.Name != to.Name && (to.Served || to == c.home(from)) {
				c.crossOld(ctx, pair{from, to}, known, out)
			}
		}
		for _, from := range served(c.newParts) {
			if from.Name == to.Name || from.build() != nil || c.sameAsBefore(from, to) {
				continue
			}
			for _, g := range c.decide(ctx, pair{c.settled(from, storage(c.newParts)), to}) {
				harms := g.Harm == contain.Pruned || g.Harm == contain.Refused && to.Served
				if g.Verdict == contain.NotContained && harms && !known.has(&g) {
					known.add(g)
					out.onesided = append(out.onesided, crossing{pair{from, to}, g})
				}
			}
		}
	}
}

// crossOld looks at what objects written in an old version meet in a new one. What it finds is known from then on.
func (c *comparison) crossOld(ctx context.Context, p pair, known told, out *crossings) {
	home := c.home(p.from)
	if home == nil || home.build() != nil || p.from.build() != nil || c.sameAsBefore(p.from, p.to) {
		return
	}
	own := told{}
	if same := find(c.newParts, p.from.Name); same != nil {
		for _, g := range c.decide(ctx, pair{p.from, same}) {
			if same.Served || c.readFromStorage(pair{p.from, same}, g.Harm) {
				own.add(g)
			}
		}
	}
	for _, g := range append(c.filledIn(ctx, p, home), c.unlike(ctx, p, home)...) {
		if !known.has(&g) {
			known.add(g)
			out.refused = append(out.refused, crossing{p, g})
		}
	}
	for _, g := range c.decide(ctx, pair{c.settled(p.from, home), p.to}) {
		if known.has(&g) || own.has(&g) || g.Harm != contain.Pruned && g.Harm != contain.Refused {
			continue
		}
		known.add(g)
		x := crossing{p, g}
		switch {
		case g.Verdict == contain.Unknown:
			switch {
			case g.Harm == contain.Pruned && (p.from.Storage || g.OutOfBudget()):
				out.erased = append(out.erased, x)
			case g.OutOfBudget() && p.to.Served:
				out.refused = append(out.refused, x)
			}
		case !c.travels(ctx, p, &g):
		case g.Harm == contain.Pruned:
			out.erased = append(out.erased, x)
		case p.to.Served:
			out.refused = append(out.refused, x)
		}
	}
}

// filledIn are the gaps of defaults that the new CRD fills in when it reads what the old one stored, and that the version
// in which it is read refuses.
func (c *comparison) filledIn(ctx context.Context, p pair, home *part) []contain.Gap {
	if p.from.Name != home.Name {
		return nil
	}
	var out []contain.Gap
	for _, g := range c.lacks(ctx, p.from, home) {
		j, err := c.journey(ctx, p, g.Witness.Object)
		if err != nil {
			continue
		}
		if len(j.filled) > 0 {
			g.Witness = &contain.Witness{Object: g.Witness.Object, Errors: j.filled}
			g.Keyword, g.Path, g.Detail = "default", fullPath(&g), ""
			out = append(out, g)
		}
	}
	return out
}

// unlike are the defaults of the version p.to because of which its rules about updates refuse objects of the other one, though
// nothing of them changes: what is read is converted and not filled in, and what is written back is.
func (c *comparison) unlike(ctx context.Context, p pair, home *part) []contain.Gap {
	if !p.to.Served || !hasTransitions(p.to.props, 0) {
		return nil
	}
	var out []contain.Gap
	for _, g := range c.lacks(ctx, c.settled(p.from, home), p.to) {
		j, err := c.journey(ctx, p, g.Witness.Object)
		if err != nil || len(j.updates) == 0 {
			continue
		}
		g.Witness = &contain.Witness{Object: g.Witness.Object, Errors: j.updates}
		g.Keyword, g.Path, g.Detail = "default", fullPath(&g), ""
		out = append(out, g)
	}
	return out
}

// hasTransitions tells whether a rule of the schema mentions oldSelf.
func hasTransitions(p *props, depth int) bool {
	if p == nil || depth > schema.MaxDepth {
		return false
	}
	if slices.ContainsFunc(p.XValidations, func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, "oldSelf") }) {
		return true
	}
	for _, sub := range p.Properties {
		if hasTransitions(&sub, depth+1) {
			return true
		}
	}
	return p.Items != nil && hasTransitions(p.Items.Schema, depth+1) || p.AdditionalProperties != nil && hasTransitions(p.AdditionalProperties.Schema, depth+1)
}

// lacks are objects of one version that lack something which the other one fills in, as gaps of required, one for each field.
func (c *comparison) lacks(ctx context.Context, from, to *part) []contain.Gap {
	asking, ok := demand(from.props, to.props, 0)
	if !ok || from.build() != nil {
		return nil
	}
	o := c.containOptions(from)
	o.Only = map[string]bool{"required": true}
	side, err := contain.NewSide(asking)
	if err != nil {
		return nil // cannot be: it is a schema that passed, with more names in required
	}
	return slices.DeleteFunc(contain.Decide(ctx, from.side, side, o).Gaps, func(g contain.Gap) bool { return g.Witness == nil })
}

// writers are the old versions in which objects may have been written or stored, the storage version first. What a webhook
// made of a write in another version is not known.
func (c *comparison) writers() []*part {
	var out []*part
	for _, p := range c.oldParts {
		if p.Served && !converts(c.old) || c.isStored(p.Name) {
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
	return out
}

// home is the version of the new CRD by which objects written in an old version are read: that of the old storage version,
// or their own where nobody writes in it any more. nil where the new CRD lacks it.
func (c *comparison) home(from *part) *part {
	if s := storage(c.oldParts); from.Served && s != nil && !converts(c.old) {
		from = s
	}
	return find(c.newParts, from.Name)
}

// knownTo are the gaps that need not be told of a version of the new CRD: the old CRD had them between its versions, or the
// comparison of the version with itself tells them.
func (c *comparison) knownTo(ctx context.Context, to *part) told {
	known := told{}
	before := find(c.oldParts, to.Name)
	if before == nil || !before.Served && !c.isStored(before.Name) {
		return known
	}
	known.add(c.decide(ctx, pair{before, to})...)
	if !before.Served || converts(c.old) || before.build() != nil {
		return known
	}
	for _, from := range c.writers() {
		if from != before && from.build() == nil {
			known.add(c.decide(ctx, pair{c.settled(from, storage(c.oldParts)), before})...)
		}
	}
	return known
}

// sameAsBefore tells whether the old CRD served the version to and had both, with the same meaning.
func (c *comparison) sameAsBefore(from, to *part) bool {
	o, n := find(c.oldParts, from.Name), find(c.newParts, from.Name)
	before := find(c.oldParts, to.Name)
	return o != nil && n != nil && before != nil && before.Served && !converts(c.old) && unchanged(o, n) && unchanged(before, to)
}

func unchanged(o, n *part) bool {
	return o.build() == nil && n.build() == nil && o.node().Hash() == n.node().Hash()
}

// preferred is the served version that discovery names first, and kubectl uses.
func preferred(ps []*part) *part {
	all := served(ps)
	if len(all) == 0 {
		return nil
	}
	return slices.MaxFunc(all, func(a, b *part) int { return version.CompareKubeAwareVersionStrings(a.Name, b.Name) })
}

// travels tells whether the witness of a gap makes the whole journey, and in the other version something is dropped or
// refused at the end of it.
func (c *comparison) travels(ctx context.Context, p pair, g *contain.Gap) bool {
	j, err := c.journey(ctx, p, g.Witness.Object)
	switch {
	case err != nil:
		return false
	case g.Harm == contain.Refused:
		return slices.ContainsFunc(j.errors, func(e string) bool {
			path, _, _ := strings.Cut(e, ": ")
			return concerns(path, g) || strings.Contains(e, "("+g.Keyword+")") // what junctors say has no path
		})
	}
	return g.Keyword == "nullable" && j.nulls || slices.ContainsFunc(j.dropped, func(path string) bool { return concerns(path, g) })
}

// journey is what becomes of an object that is written in one version and then read and written back in another one.
type journey struct {
	// dropped are the paths of the stored object that are pruned on reading or by the other version; nulls tells whether nulls are dropped.
	dropped []string
	nulls   bool
	// errors are why an update that sets a label is refused, ratcheting aside. filled are those of them for which the new CRD is
	// to blame by what it fills in when it reads the object, updates those of rules about updates that allowed it before.
	errors, filled, updates []string
}

var errNoJourney = errors.New("the object is not stored")

// journey writes an object in an old version, stores it, reads it under the new CRD and writes it back in another version,
// all by the API server's code.
func (c *comparison) journey(ctx context.Context, p pair, obj map[string]any) (journey, error) {
	home, storing := c.home(p.from), p.from
	if s := storage(c.oldParts); p.from.Served && s != nil && !converts(c.old) {
		storing = s
	}
	var at [4]*upstream.Validator
	for i, q := range []*part{p.from, storing, home, p.to} {
		v, err := c.validator(q)
		if err != nil {
			return journey{}, err
		}
		at[i] = v
	}
	res, err := at[0].Create(ctx, obj)
	if err != nil || res.Refused() {
		return journey{}, errors.Join(errNoJourney, err)
	}
	stored := res.Stored
	if storing != p.from {
		if stored, _, err = at[1].Convert(stored); err != nil {
			return journey{}, err
		}
	}
	kept, dropped, err := at[2].Convert(stored) // without the defaults that reading fills in: they are no data
	if err != nil {
		return journey{}, err
	}
	converted, more, err := at[3].Convert(kept)
	if err != nil {
		return journey{}, err
	}
	j := journey{dropped: append(dropped, more...), nulls: compact(withoutType(converted)) != compact(withoutType(kept))}
	from := at[2]
	if home == p.to {
		from = nil
	}
	touch, err := at[3].TouchUpdateFrom(ctx, from, stored, false)
	for _, e := range touch.Errors {
		j.errors = append(j.errors, e.Error())
	}
	if err != nil || len(j.errors) == 0 || len(dropped) > 0 {
		return j, err
	}
	before, err := at[3].TouchUpdateFrom(ctx, at[1], stored, false)
	if err != nil {
		return j, err
	}
	j.filled = minusErrors(j.errors, before.Errors)
	created, err := at[3].Create(ctx, converted)
	if j.updates = minusErrors(j.errors, created.Errors); err != nil || len(j.updates) == 0 {
		return j, err
	}
	was, err := c.touchedBefore(ctx, p, at[1], stored)
	j.updates = minusErrors(j.updates, was)
	return j, err
}

// touchedBefore says why the old CRD refused to set a label on what is stored, in the version in which it is written back now,
// or, where that is new, in which it was written.
func (c *comparison) touchedBefore(ctx context.Context, p pair, storing *upstream.Validator, stored map[string]any) (field.ErrorList, error) {
	in := find(c.oldParts, p.to.Name)
	if in == nil || !in.Served {
		in = p.from
	}
	v, err := c.validator(in)
	if err != nil {
		return nil, err
	}
	res, err := v.TouchUpdateFrom(ctx, storing, stored, false)
	return res.Errors, err
}

func minusErrors(all []string, known field.ErrorList) []string {
	return slices.DeleteFunc(slices.Clone(all), func(e string) bool {
		return slices.ContainsFunc(known, func(x *field.Error) bool { return x.Error() == e })
	})
}

func withoutType(obj map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range obj {
		if k != "apiVersion" {
			out[k] = v
		}
	}
	return out
}

// validator prepares the schema of a version for requests, once.
func (c *comparison) validator(p *part) (*upstream.Validator, error) {
	if p.judge == nil {
		o := c.containOptions(p)
		v, err := upstream.New(p.props, upstream.Options{
			Group: o.Group, Version: p.Name, Kind: o.Kind, Namespaced: o.Namespaced, KubeVersion: o.KubeVersion, Scale: scaleOf(p),
		})
		if err != nil {
			return nil, err
		}
		p.judge = v
	}
	return p.judge, nil
}
