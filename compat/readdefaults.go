package compat

// Which value do clients of one version find where a client of another version left a field out? The version that stores the object fills in its
// default. For example, v1 has no default, v2 has 3 and stores: clients of v1 find 3, until another version stores.

import (
	"context"
	"reflect"
	"slices"

	"sluice.dev/report"
	"sluice.dev/schema"
	"sluice.dev/schema/contain"
)

// defaultsLostToReaders are the defaults that one version filled in where it stored the objects of another one, and that clients no longer find.
// With anew, these are objects that are written from now on, by another version or stored in another one; otherwise those that are stored already.
func (c *comparison) defaultsLostToReaders(ctx context.Context, stored pair, anew bool) (out []report.Finding) {
	known, moved := told{}, stored.from.Name != stored.to.Name
	if !moved {
		known = c.redefaultedIn(ctx, stored)
	}
	for _, writer := range c.servedPairs() {
		same := anew && !moved && isUnchangedSchema(writer.from, writer.to)
		if same || !moved && writer.from.Name == stored.from.Name || writer.to.buildSchema() != nil || !c.work.Charge(unitsToCross) {
			continue
		}
		own := c.redefaultedIn(ctx, writer)
		for _, g := range c.objectsFilledBy(ctx, c.afterStep(writer.from, step{kind: stepDropStatus}), stored.from) { // the default of .status is dropped with it
			if !own.hasGap(&g) && !known.hasGap(&g) {
				out = append(out, c.readersFinding(ctx, writer, stored, anew, true, g)...)
			}
		}
	}
	return out
}

// defaultsNewToReaders are the defaults that a new storage version fills in for the versions that have none.
func (c *comparison) defaultsNewToReaders(ctx context.Context) (out []report.Finding) {
	o, n := storageVersionOf(c.oldParts), storageVersionOf(c.newParts)
	if o == nil || n == nil || o.Name == n.Name || len(c.oldConversions) > 0 || len(c.newConversions) > 0 || o.buildSchema() != nil || n.buildSchema() != nil {
		return nil
	}
	for _, writer := range c.servedPairs() {
		if writer.to.buildSchema() != nil || !c.work.Charge(unitsToCross) {
			continue
		}
		for _, g := range c.objectsFilledBy(ctx, writer.to, n) {
			found := c.readersFinding(ctx, writer, pair{o, n}, true, false, g)
			for i := range found {
				found[i].Rule, found[i].Level = "", report.ReadersSurprised
			}
			out = append(out, found...)
		}
	}
	return out
}

// readersFinding are the findings about clients that find another value at the place of a gap than so far: lost if there was one. Clients of the version
// that wrote the object stand for all if they are among them.
// Both sides are read by the API server's code, so that the values in the finding are those that a client gets.
func (c *comparison) readersFinding(ctx context.Context, p, stored pair, anew, lost bool, g contain.Gap) (out []report.Finding) {
	writer := p.from
	old, err := c.createObject(ctx, writer, stored.from, g.Witness.Object)
	if err != nil {
		return nil
	}
	kept := old
	if anew {
		if kept, err = c.createObject(ctx, p.to, stored.to, g.Witness.Object); err != nil {
			return nil
		}
	}
	readers := c.servedPairs()
	if i := slices.IndexFunc(readers, func(p pair) bool { return p.from == writer }); i > 0 {
		readers[0], readers[i] = readers[i], readers[0]
	}
	for _, reader := range readers {
		before, err := c.readObject(reader.from, stored.from, old)
		if err != nil {
			return out
		}
		after, err := c.readObject(reader.to, stored.to, kept)
		if err != nil {
			return out
		}
		w := *g.Witness
		w.Before, _ = contain.ValueAt(before, g.Path)
		w.After, _ = contain.ValueAt(after, g.Path)
		if lost != (w.Before != nil) || reflect.DeepEqual(w.Before, w.After) {
			continue
		}
		g.Before, g.After, g.Witness = w.Before, w.After, &w
		f := c.findingOf(newChange(reader, g))
		if w.Before != nil {
			f.Message += ": so far the storage version " + stored.from.Name + " filled it in for "
		} else {
			f.Message += ": the storage version " + stored.to.Name + " fills it in from now on for "
		}
		if reader.from == writer {
			f.Message += writer.Name
			return append(out, f)
		}
		f.Message += "objects written as " + writer.Name
		f.Witness.AcceptedBy, f.Witness.JudgedBy = writer.versionPhrase(), reader.to.versionPhrase()
		out = append(out, f)
	}
	return out
}

// objectsFilledBy are objects of a version that lack a field, or have a null, for which another version fills in a default, as gaps of that
// default with a witness.
func (c *comparison) objectsFilledBy(ctx context.Context, from, filler *part) (out []contain.Gap) {
	gaps := c.objectsLackingDefaults(ctx, from, filler)
	if asking := withoutFilledNull(from.props, filler.props, 0); asking != from.props && from.buildSchema() == nil {
		if side, err := contain.NewSide(asking); err == nil {
			o := c.containOptions(from)
			o.Only = func(g *contain.Gap) bool { return g.Keyword == "type" || g.Keyword == "nullable" }
			gaps = append(slices.Clip(gaps), contain.Decide(ctx, from.side, side, o).Gaps...)
		}
	}
	for _, g := range gaps {
		if g.Witness != nil {
			out = append(out, contain.Gap{
				Path: fullPath(&g), Keyword: "default", Harm: contain.Redefaulted, Verdict: contain.NotContained, Rule: -1, Witness: g.Witness,
			})
		}
	}
	return out
}

// withoutFilledNull returns p without the nulls that reader replaces with a default.
// A null in a list or a map is replaced when the object is read, if the reader has a default for the items or values
// there.
func withoutFilledNull(p, reader *props, depth int) *props {
	if p == nil || reader == nil || depth > schema.MaxDepth {
		return p
	}
	return rewriteChildren(p, func(child *props, at contain.Step) *props {
		twin := schemaAt(reader, at)
		if fillsNull(twin) && child.Nullable {
			child = new(*child)
			child.Nullable = false
		}
		return withoutFilledNull(child, twin, depth+1)
	})
}

// redefaultedIn are the defaults of which the comparison of one version says that they change or go.
func (c *comparison) redefaultedIn(ctx context.Context, p pair) told {
	known := told{}
	for _, g := range c.decidePair(ctx, p) {
		if g.Harm == contain.Redefaulted && g.Keyword == "default" && g.Before != nil {
			known.addGaps(g)
		}
	}
	return known
}

// firstOfEachPlace leaves one finding for each place of a version: one writer stands for all.
// The order stays, so that the finding of the first writer is kept.
func firstOfEachPlace(all []report.Finding) []report.Finding {
	known := map[string]bool{}
	return slices.DeleteFunc(all, func(f report.Finding) bool {
		key := f.Version + " " + f.Path
		again := known[key]
		known[key] = true
		return again
	})
}
