package compat

// Does one object really meet the harm on its way through several versions? The API server's own code writes it in one version, stores it,
// reads it under the new CRD and writes it back. For example, an object that v1beta1 accepts is read as v1, which drops spec.b.

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/schema"
	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
)

// canTravel reports whether the witness of a gap makes the whole journey, and in the other version something is dropped or
// refused at the end of it.
// The prover answers about schemas. Between two versions there are several writes and reads, and each may drop or
// fill in something else. The journey shows that the harm survives all of them, by the code that will do it.
func (c *comparison) canTravel(ctx context.Context, p pair, g *contain.Gap) bool {
	j, err := c.makeJourney(ctx, p, c.readingVersion(p.from), g.Witness.Object)
	switch {
	case err != nil:
		return false
	case g.Harm != contain.Pruned:
		return j.refusesAt(g)
	}
	return g.Keyword == "nullable" && j.nulls || slices.ContainsFunc(j.dropped, func(path string) bool { return isPathOfGap(path, g) })
}

// refusesAt reports whether the object is refused at the place of a gap.
// Some errors of the API server have no path, and count at each place: those of junctors, and that rules
// were not checked.
func (j *journey) refusesAt(g *contain.Gap) bool {
	return slices.ContainsFunc(j.errors, func(e string) bool {
		path, _, _ := strings.Cut(e, ": ")
		return isPathOfGap(path, g) || path == "<nil>" // of junctors, and of bounds that do not fit the type
	})
}

// storedGaps are the gaps between what is stored of version p and read by reader, and version to.
// The first of the parts made of p has what reading fills in, and its refusals hold as they are. Refusals that only
// later parts have must show a witness that makes the journey, because filling in may mend them.
func (c *comparison) storedGaps(ctx context.Context, p, reader, to *part) []contain.Gap {
	var out []contain.Gap
	known := told{}
	for i, stored := range c.asStored(p, reader) {
		for _, g := range c.decidePair(ctx, pair{stored, to}) {
			sure := i == 0 || g.Harm != contain.Refused || g.Witness == nil
			if !known.hasGap(&g) && (sure || c.canTravel(ctx, pair{p, to}, &g)) {
				known.addGaps(g)
				out = append(out, g)
			}
		}
	}
	return out
}

// travelsOtherwise looks for another object for a refusal whose witness does not make the journey: one without the fields that are
// pruned on the way, and with the defaults that are filled in. It reports whether there may be one.
func (c *comparison) travelsOtherwise(ctx context.Context, x *crossing) bool {
	for _, g := range c.decidePair(ctx, pair{c.wayHome(x.from), x.to}) {
		same := g.Keyword == x.Keyword && g.Detail == x.Detail && g.Harm == x.Harm && len(g.Path) == len(x.Path) && mayBeNested(g.Path, x.Path)
		if same && (g.Verdict == contain.Unknown && !g.OddAlone || g.Witness != nil && c.canTravel(ctx, x.pair, &g)) {
			x.Gap = g
			return true
		}
	}
	return false
}

// wayHome returns the version whose objects are those of an old version that are stored under the old CRD, and read under the new one.
func (c *comparison) wayHome(from *part) *part {
	way := c.afterStep(from, step{stepConvertAndRead, c.readingVersion(from)})
	if s := c.storingVersion(from); s != nil {
		way = c.afterStep(way, step{stepConvert, s})
	}
	return way
}

var errNoJourney = errors.New("the object is not stored")

// makeJourney writes an object in an old version, stores it, reads it under the new CRD, and writes it back in another version, all by the
// API server's code. If filler is not the version that reads what the old CRD has stored, the object is written back once before, and read
// by the new storage version then: filler is that version, or the one in which the object is written back before.
func (c *comparison) makeJourney(ctx context.Context, p pair, filler *part, obj map[string]any) (journey, error) {
	return c.journeyWith(ctx, p, filler, obj, false)
}

// journeyWith is makeJourney. With ratchet, both CRDs tolerate errors in unchanged values.
// The touch at the end sets a label and nothing else. So whatever it is refused for, each controller that sets an
// annotation or a finalizer meets it. Errors that the old CRD had as well are taken away, because they are no news.
func (c *comparison) journeyWith(ctx context.Context, p pair, filler *part, obj map[string]any, ratchet bool) (journey, error) {
	r := c.routeOf(p, filler)
	if r.home == nil { // the new CRD lacks the version in which the object is stored
		return journey{}, errNoJourney
	}
	first, err := c.createObject(ctx, r.from, r.storing, obj)
	if err != nil {
		return journey{}, err
	}
	stored := first
	if filler != r.home {
		if stored, err = c.writtenAgain(ctx, r, filler, first); err != nil {
			return journey{}, err
		}
	}
	// Reading prunes, as a conversion does.
	kept, dropped, err := c.convertObject(r.reader, stored) // without the defaults that reading fills in: they are no data
	if err != nil {
		return journey{}, err
	}
	converted, more, err := c.convertObject(r.to, kept)
	if err != nil {
		return journey{}, err
	}
	differ := func(a, b map[string]any) bool { return compactJSON(withoutType(a)) != compactJSON(withoutType(b)) }
	touch, err := c.updateObject(ctx, r.to, r.reader, stored, nil, ratchet)
	j := journey{dropped: append(dropped, more...)}
	j.nulls = differ(converted, kept) || len(dropped) == 0 && differ(kept, stored) || replacesNull(stored, touch.Stored)
	if err != nil || len(touch.Errors) == 0 {
		return j, err
	}
	was, err := c.touchedBefore(ctx, r, first, ratchet)
	if err != nil {
		return j, err
	}
	j.addErrors(touch.Errors, was)
	if len(j.errors) == 0 {
		return j, nil
	}
	// The same write, if the old version that stored the object read it: errors that it does not have
	// come from the defaults of the new reader.
	before, err := c.updateObject(ctx, r.to, r.storing, first, nil, false)
	if err != nil {
		return j, err
	}
	j.filled = minusErrors(j.errors, before.Errors)
	if len(dropped) > 0 { // what rules say may come of the loss
		j.filled = slices.DeleteFunc(j.filled, func(e string) bool { return j.ofRules[e] })
		return j, nil
	}
	v, err := c.validatorOf(r.to)
	if err != nil {
		return j, err
	}
	created, err := v.CreateWithStatus(ctx, converted)
	j.updates = minusErrors(j.errors, created.Errors)
	return j, err
}

// addErrors takes over the errors of a write that were none before.
// If the old CRD stopped before its rules because something else was wrong, nobody knows what the rules would have
// said. Then no rule counts as news.
func (j *journey) addErrors(now, was field.ErrorList) {
	j.ofRules = map[string]bool{}
	for _, e := range now {
		if !skipsRules(e) {
			j.errors = append(j.errors, e.Error())
		}
		if e.Origin == upstream.OriginRule {
			j.ofRules[e.Error()] = true
		}
	}
	j.errors = minusErrors(j.errors, was)
	if slices.ContainsFunc(was, skipsRules) { // what rules say now they might have said then
		j.errors = slices.DeleteFunc(j.errors, func(e string) bool { return j.ofRules[e] })
	}
}

// routeOf returns the versions of a journey; without home if the new CRD lacks the version that reads the object.
// If filler is another version than the first reader, the object was written back in between, and the new
// storage version reads it from then on.
func (c *comparison) routeOf(p pair, filler *part) route {
	home := c.readingVersion(p.from)
	r := route{from: p.from, storing: cmp.Or(c.storingVersion(p.from), p.from), home: home, reader: home, to: p.to}
	if filler != home {
		r.reader = cmp.Or(storageVersionOf(c.newParts), home)
	}
	return r
}

// writtenAgain returns what is stored for the last time, after a label was set under the new CRD: in filler if both CRDs serve it, or, if that
// is the storage version, in the version to.
// A write counts if both CRDs accept it: a refused write leaves the stored object as it is.
func (c *comparison) writtenAgain(ctx context.Context, r route, filler *part, stored map[string]any) (map[string]any, error) {
	var writers []*part
	if before := findVersion(c.oldParts, filler.Name); before == nil || !before.Served || !isUnchangedSchema(before, filler) || c.storageMoves() { // otherwise it filled in the same before
		writers = append(writers, filler)
	}
	if filler.Storage {
		writers = append(writers, r.to)
	}
	for _, w := range writers {
		res, err := c.updateObject(ctx, w, r.home, stored, nil, false)
		if err == nil && !res.Refused() && (w == r.to || c.stillServed(w)) {
			return c.storeObject(r.reader, res.Stored)
		}
	}
	return nil, errNoJourney
}

// createObject creates an object in one version, or updates another one to it, and returns what another version stores of it.
// With optionalOldSelf, the object may be one that only updates reach. Then the way to it is looked for, see
// [comparison.updateTo].
func (c *comparison) createObject(ctx context.Context, in, storing *part, obj map[string]any) (map[string]any, error) {
	v, err := c.validatorOf(in)
	if err != nil {
		return nil, err
	}
	res, err := v.CreateWithStatus(ctx, obj)
	if err != nil {
		return nil, errors.Join(errNoJourney, err)
	}
	made := res.Stored
	if res.Refused() {
		if c.afterStep(in, step{kind: stepUpdate}) == in {
			return nil, errNoJourney
		}
		if _, made = c.updateTo(ctx, in, obj, nil); made == nil {
			return nil, errNoJourney
		}
	}
	return c.storeObject(storing, made)
}

// convertObject converts an object to a version. It returns the paths of the fields that the conversion drops.
func (c *comparison) convertObject(to *part, obj map[string]any) (converted map[string]any, dropped []string, err error) {
	v, err := c.validatorOf(to)
	if err != nil {
		return nil, nil, err
	}
	return v.Convert(obj)
}

// storeObject returns what is stored of a written object in a version.
func (c *comparison) storeObject(in *part, obj map[string]any) (map[string]any, error) {
	obj, _, err := c.convertObject(in, obj)
	if err != nil {
		return nil, err
	}
	stored, _ := schema.AsStored(obj).(map[string]any)
	return stored, nil
}

// updateObject updates what a version stores in another one, or sets a label if there is no object to write.
func (c *comparison) updateObject(ctx context.Context, in, home *part, stored, obj map[string]any, ratchet bool) (upstream.Result, error) {
	v, err := c.validatorOf(in)
	if err != nil {
		return upstream.Result{}, err
	}
	reader, err := c.validatorOf(home)
	if err != nil {
		return upstream.Result{}, err
	}
	if obj == nil {
		return v.TouchUpdateFrom(ctx, reader, stored, ratchet)
	}
	return v.UpdateFrom(ctx, reader, obj, stored, ratchet)
}

// readObject returns a stored object as clients of the version in see it. The version home stored it.
// Reading fills in the defaults of home and prunes by it; the conversion then prunes by the version in.
func (c *comparison) readObject(in, home *part, stored map[string]any) (map[string]any, error) {
	reader, err := c.validatorOf(home)
	if err != nil {
		return nil, err
	}
	obj, _, _, err := reader.Read(stored)
	if err != nil || home == in {
		return obj, err
	}
	obj, _, err = c.convertObject(in, obj)
	return obj, err
}

// skipsRules reports whether an error says that rules were not evaluated, because something else was wrong.
func skipsRules(e *field.Error) bool {
	return strings.HasPrefix(e.Detail, "some validation rules were not checked")
}

// touchedBefore says why the old CRD refused to set a label on what is stored, in the version in which it is written back now,
// or, where that is new, in which it was written.
func (c *comparison) touchedBefore(ctx context.Context, r route, stored map[string]any, ratchet bool) (field.ErrorList, error) {
	in := findVersion(c.oldParts, r.to.Name)
	if in == nil || !in.Served {
		in = r.from
	}
	res, err := c.updateObject(ctx, in, r.storing, stored, nil, ratchet)
	return res.Errors, err
}

func minusErrors(all []string, known field.ErrorList) []string {
	return slices.DeleteFunc(slices.Clone(all), func(e string) bool {
		return slices.ContainsFunc(known, func(x *field.Error) bool { return x.Error() == e })
	})
}

// replacesNull reports whether a null of a stored object has another value in what is written back, because a version filled in its default.
// Fields that are gone do not count: they were dropped, which is another harm.
func replacesNull(stored, written any) bool {
	switch v := stored.(type) {
	case nil:
		return written != nil
	case map[string]any:
		w, _ := written.(map[string]any)
		for name, below := range v {
			if is, kept := w[name]; kept && replacesNull(below, is) {
				return true
			}
		}
	case []any:
		w, _ := written.([]any)
		for i, item := range v[:min(len(v), len(w))] {
			if replacesNull(item, w[i]) {
				return true
			}
		}
	}
	return false
}

// withoutType leaves out the apiVersion, which differs between versions of the same object. The map is a copy, its
// values are shared.
func withoutType(obj map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range obj {
		if k != "apiVersion" {
			out[k] = v
		}
	}
	return out
}

// validatorOf prepares the schema of a version for requests, once.
// The validator runs rules exactly, without the shortcuts of searches, because its answer is quoted in findings.
func (c *comparison) validatorOf(p *part) (*upstream.Validator, error) {
	if p.judge == nil {
		o := c.containOptions(p)
		v, err := upstream.New(p.props, upstream.Options{
			Group: o.Group, Version: p.Name, Kind: o.Kind, Namespaced: o.Namespaced, KubeVersion: o.KubeVersion, Scale: scaleOf(p),
			StatusSubresource: p.Subresources != nil && p.Subresources.Status != nil,
		})
		if err != nil {
			return nil, err
		}
		p.judge = v.Exact()
	}
	return p.judge, nil
}
