package compat

// Does one object really meet the harm on its way through several versions? The API server's own code writes it in one version, stores it,
// reads it under the new CRD and writes it back. For example, an object that v1beta1 accepts is read as v1, which drops spec.b.

import (
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
func (c *comparison) canTravel(ctx context.Context, p pair, g *contain.Gap) bool {
	return c.travelsWith(ctx, p, g, false)
}

// travelsWith is travels. With ratchet, both CRDs tolerate errors in unchanged values.
func (c *comparison) travelsWith(ctx context.Context, p pair, g *contain.Gap, ratchet bool) bool {
	j, err := c.journeyWith(ctx, p, c.readingVersion(p.from), g.Witness.Object, ratchet)
	switch {
	case err != nil:
		return false
	case g.Harm != contain.Pruned:
		return slices.ContainsFunc(j.errors, func(e string) bool {
			path, _, _ := strings.Cut(e, ": ")
			return isPathOfGap(path, g) || path == "<nil>" // of junctors, and of bounds that do not fit the type
		})
	}
	return g.Keyword == "nullable" && j.nulls || slices.ContainsFunc(j.dropped, func(path string) bool { return isPathOfGap(path, g) })
}

var errNoJourney = errors.New("the object is not stored")

// makeJourney writes an object in an old version, stores it, reads it under the new CRD, and writes it back in another version, all by the
// API server's code. If filler is not the version that reads what the old CRD has stored, the object is written back once before, and read
// by the new storage version then: filler is that version, or the one in which the object is written back before.
func (c *comparison) makeJourney(ctx context.Context, p pair, filler *part, obj map[string]any) (journey, error) {
	return c.journeyWith(ctx, p, filler, obj, false)
}

// journeyWith is journey. With ratchet, both CRDs tolerate errors in unchanged values.
func (c *comparison) journeyWith(ctx context.Context, p pair, filler *part, obj map[string]any, ratchet bool) (journey, error) {
	r, err := c.routeOf(p, filler)
	if err != nil {
		return journey{}, err
	}
	first, stored, err := c.storedOnRoute(ctx, p, filler, r, obj)
	if err != nil {
		return journey{}, err
	}
	kept, dropped, err := r.reader.Convert(stored) // without the defaults that reading fills in: they are no data
	if err != nil {
		return journey{}, err
	}
	converted, more, err := r.to.Convert(kept)
	if err != nil {
		return journey{}, err
	}
	differ := func(a, b map[string]any) bool { return compactJSON(withoutType(a)) != compactJSON(withoutType(b)) }
	j := journey{dropped: append(dropped, more...), nulls: differ(converted, kept) || len(dropped) == 0 && differ(kept, stored)}
	touch, err := r.to.TouchUpdateFrom(ctx, r.reader, stored, ratchet)
	if err != nil || len(touch.Errors) == 0 {
		return j, err
	}
	was, err := c.touchedBefore(ctx, p, r.storing, first, ratchet)
	if err != nil {
		return j, err
	}
	j.ofRules = map[string]bool{}
	for _, e := range touch.Errors {
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
	if len(j.errors) == 0 {
		return j, nil
	}
	before, err := r.to.TouchUpdateFrom(ctx, r.storing, first, false)
	if err != nil {
		return j, err
	}
	j.filled = minusErrors(j.errors, before.Errors)
	if len(dropped) > 0 { // what rules say may come of the loss
		j.filled = slices.DeleteFunc(j.filled, func(e string) bool { return j.ofRules[e] })
		return j, nil
	}
	created, err := r.to.CreateWithStatus(ctx, converted)
	j.updates = minusErrors(j.errors, created.Errors)
	return j, err
}

func (c *comparison) routeOf(p pair, filler *part) (route, error) {
	storing, home := p.from, c.readingVersion(p.from)
	reader := home
	if s := c.storingVersion(p.from); s != nil {
		storing = s
	}
	if s := storageVersionOf(c.newParts); filler != home && s != nil {
		reader = s
	}
	var r route
	for _, x := range []struct {
		part *part
		of   **upstream.Validator
	}{{p.from, &r.from}, {storing, &r.storing}, {home, &r.home}, {reader, &r.reader}, {p.to, &r.to}} {
		if x.part == nil { // the new CRD lacks the version in which the object is stored
			return r, errNoJourney
		}
		v, err := c.validatorOf(x.part)
		if err != nil {
			return r, err
		}
		*x.of = v
	}
	return r, nil
}

// storedOnRoute returns what the old CRD stores of an object, and what is stored when it is read for the last time.
func (c *comparison) storedOnRoute(ctx context.Context, p pair, filler *part, r route, obj map[string]any) (first, last map[string]any, err error) {
	res, err := r.from.CreateWithStatus(ctx, obj)
	if err != nil || res.Refused() {
		return nil, nil, errors.Join(errNoJourney, err)
	}
	first = res.Stored
	if r.storing != r.from {
		if first, _, err = r.storing.Convert(first); err != nil {
			return nil, nil, err
		}
	}
	first, _ = schema.AsStored(first).(map[string]any)
	if filler == c.readingVersion(p.from) {
		return first, first, nil
	}
	if last, err = c.writtenAgain(ctx, p, filler, r.home, first); err != nil {
		return nil, nil, err
	}
	if last, _, err = r.reader.Convert(last); err != nil {
		return nil, nil, err
	}
	last, _ = schema.AsStored(last).(map[string]any)
	return first, last, nil
}

// writtenAgain returns what is stored by home, after a label was set under the new CRD: in filler if both CRDs serve it, or, if that is the
// storage version, in the version p.to.
func (c *comparison) writtenAgain(ctx context.Context, p pair, filler *part, home *upstream.Validator, stored map[string]any) (map[string]any, error) {
	var writers []*part
	if before := findVersion(c.oldParts, filler.Name); before == nil || !before.Served || !isUnchangedSchema(before, filler) || c.storageMoves() { // otherwise it filled in the same before
		writers = append(writers, filler)
	}
	if filler.Storage {
		writers = append(writers, p.to)
	}
	for _, w := range writers {
		v, err := c.validatorOf(w)
		if err != nil {
			return nil, err
		}
		res, err := v.TouchUpdateFrom(ctx, home, stored, false)
		if err == nil && !res.Refused() && (w == p.to || c.stillServed(w)) {
			return res.Stored, nil
		}
	}
	return nil, errNoJourney
}

// skipsRules reports whether an error says that rules were not evaluated, because something else was wrong.
func skipsRules(e *field.Error) bool {
	return strings.HasPrefix(e.Detail, "some validation rules were not checked")
}

// touchedBefore says why the old CRD refused to set a label on what is stored, in the version in which it is written back now,
// or, where that is new, in which it was written.
func (c *comparison) touchedBefore(ctx context.Context, p pair, storing *upstream.Validator, stored map[string]any, ratchet bool) (field.ErrorList, error) {
	in := findVersion(c.oldParts, p.to.Name)
	if in == nil || !in.Served {
		in = p.from
	}
	v, err := c.validatorOf(in)
	if err != nil {
		return nil, err
	}
	res, err := v.TouchUpdateFrom(ctx, storing, stored, ratchet)
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

// validatorOf prepares the schema of a version for requests, once.
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
