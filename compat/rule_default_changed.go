package compat

import (
	"context"
	"reflect"
	"slices"

	"sluice.dev/report"
	"sluice.dev/schema"
	"sluice.dev/schema/contain"
)

var defaultChanged = Rule{
	ID:    "default-changed",
	Level: report.MeaningChanged,
	Title: "A default changed",
	Why: `The API server fills in defaults when it stores an object and whenever it reads one. If an object was stored before the ` +
		`field had a default, it changes without a write. A manifest without the field now means something else.`,
	Help: `Keep the default, and change the value in the controller that uses it. A new API version can have another default if a ` +
		`webhook converts between the versions.`,
	Unsafe: Example{
		Old: `
retries:
  type: integer
  default: 3
`, New: `
retries:
  type: integer
  default: 5
`,
	},
	Instead: `
retries:
  type: integer
  default: 3
  description: How often to retry. The controller retries at least 5 times.
`,
	claim: func(c *change) (string, bool) {
		return "default changed from " + inlineJSON(c.Before) + " to " + inlineJSON(c.After), c.Harm == contain.Redefaulted && c.Before != nil
	},
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		o, n := storageVersionOf(c.oldParts), storageVersionOf(c.newParts)
		if o == nil || n == nil || len(c.oldConversions) > 0 || len(c.newConversions) > 0 || o.buildSchema() != nil || n.buildSchema() != nil {
			return nil
		}
		var out []report.Finding
		for _, p := range c.servedPairs() {
			for _, g := range c.redefaultedGaps(ctx, p, pair{o, n}) {
				f := c.findingOf(newChange(p, g))
				f.Message += ": so far the storage version " + o.Name + " filled it in for " + p.to.Name
				out = append(out, f)
			}
		}
		for _, writer := range c.servedPairs() {
			out = append(out, c.defaultsLostToReaders(ctx, writer, pair{o, n})...)
		}
		return out
	},
}

// defaultsLostToReaders are the defaults that the storage version filled in, for clients of other versions, in objects of a version that does not
// declare the field, and that another storage version does not fill in.
func (c *comparison) defaultsLostToReaders(ctx context.Context, writer, stored pair) (out []report.Finding) {
	if stored.from.Name == stored.to.Name || !c.work.Charge(unitsToCross) {
		return nil
	}
	for _, g := range c.objectsLackingDefaults(ctx, writer.from, stored.from) {
		at := fullPath(&g)
		if g.Witness == nil || propsAt(writer.from.props, at) != nil {
			continue
		}
		for _, reader := range c.servedPairs() {
			if propsAt(reader.from.props, at) == nil {
				continue
			}
			before, made := c.valueReadAt(ctx, pair{writer.from, reader.from}, stored.from, g.Witness.Object, at)
			after, taken := c.valueReadAt(ctx, pair{writer.to, reader.to}, stored.to, g.Witness.Object, at)
			if !made || !taken || before == nil || reflect.DeepEqual(before, after) {
				continue
			}
			w := *g.Witness
			w.Before, w.After = before, after
			f := c.findingOf(newChange(reader, contain.Gap{
				Path: at, Keyword: "default", Harm: contain.Redefaulted, Verdict: contain.NotContained, Before: before, After: after, Rule: -1, Witness: &w,
			}))
			f.Witness.AcceptedBy, f.Witness.JudgedBy = writer.from.versionPhrase(), reader.to.versionPhrase()
			f.Message += ": so far the storage version " + stored.from.Name + " filled it in for objects written as " + writer.from.Name
			out = append(out, f)
		}
	}
	return out
}

// valueReadAt returns what clients of a version find at a place of a new object that another version takes and the version in stores, nil for
// nothing. It returns false if the object is refused.
func (c *comparison) valueReadAt(ctx context.Context, p pair, in *part, obj map[string]any, at contain.Path) (value any, taken bool) {
	stored, err := c.createObject(ctx, p.from, in, obj)
	if err != nil {
		return nil, false
	}
	read, err := c.readObject(p.to, in, stored)
	if err != nil {
		return nil, false
	}
	value, _ = contain.ValueAt(read, at)
	return value, true
}

// redefaultedGaps are the defaults that clients of a version no longer find in its objects, whether the version or the storage version filled
// them in. It leaves out what the comparisons of the single versions report.
func (c *comparison) redefaultedGaps(ctx context.Context, p, stored pair) []contain.Gap {
	if p.from.buildSchema() != nil || p.to.buildSchema() != nil || p.from.Name == stored.from.Name && p.to.Name == stored.to.Name ||
		stored.from.Name == stored.to.Name && isUnchangedSchema(stored.from, stored.to) && isUnchangedSchema(p.from, p.to) || !c.work.Charge(unitsToCross) {
		return nil
	}
	found := func(p, reader *part) (contain.Side, error) {
		return contain.NewSide(defaultsOf(defaultsOf(boundless(p.props, reader.props, 0), reader.props, 0), p.props, 0))
	}
	from, err := found(p.from, stored.from)
	if err != nil {
		return nil // cannot be: it is a part of a schema that passed
	}
	to, err := found(p.to, stored.to)
	if err != nil {
		return nil
	}
	changes := func(g *contain.Gap) bool {
		return g.Harm == contain.Redefaulted && g.Keyword == "default" && g.Before != nil
	}
	o := c.containOptions(p.from)
	o.Only = changes
	known := c.decidePair(ctx, p)
	if stored.from.Name == stored.to.Name {
		known = append(slices.Clip(known), c.decidePair(ctx, stored)...)
	}
	return slices.DeleteFunc(contain.Decide(ctx, from, to, o).Gaps, func(g contain.Gap) bool {
		if g.Verdict != contain.NotContained {
			return true
		}
		if _, taken := c.takenRequest(ctx, p.from, g.Witness.Object); !taken {
			return true
		}
		return slices.ContainsFunc(known, func(k contain.Gap) bool { return changes(&k) && keyOf(&k) == keyOf(&g) })
	})
}

// boundless returns p without what it says of values for which reader has another default. Such a default is filled in after p has taken the
// object, so p may refuse it.
func boundless(p, reader *props, depth int) *props {
	if p == nil || reader == nil || depth > schema.MaxDepth {
		return p
	}
	return rewriteChildren(p, func(child *props, at contain.Step) *props {
		twin := schemaAt(reader, at)
		if !fillsIn(twin) || fillsIn(child) {
			return boundless(child, twin, depth+1)
		}
		return schema.Rewrite(child, schema.InStructure, func(s *props) {
			*s = props{
				Type: s.Type, Properties: s.Properties, AdditionalProperties: s.AdditionalProperties, Items: s.Items, Nullable: s.Nullable, Default: s.Default,
				XPreserveUnknownFields: s.XPreserveUnknownFields, XEmbeddedResource: s.XEmbeddedResource, XIntOrString: s.XIntOrString,
			}
		})
	})
}
