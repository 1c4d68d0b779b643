package compat

import (
	"context"
	"slices"

	"sluice.dev/report"
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
		return out
	},
}

// redefaultedGaps are the defaults that clients of a version no longer find in its objects, whether the version or the storage version filled
// them in. It leaves out what the comparisons of the single versions report.
func (c *comparison) redefaultedGaps(ctx context.Context, p, stored pair) []contain.Gap {
	if p.from.buildSchema() != nil || p.to.buildSchema() != nil || p.from.Name == stored.from.Name && p.to.Name == stored.to.Name ||
		stored.from.Name == stored.to.Name && isUnchangedSchema(stored.from, stored.to) && isUnchangedSchema(p.from, p.to) || !c.work.Charge(unitsToCross) {
		return nil
	}
	found := func(p, reader *part) (contain.Side, error) {
		return contain.NewSide(defaultsOf(defaultsOf(p.props, reader.props, 0), p.props, 0))
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
		return g.Verdict != contain.NotContained || slices.ContainsFunc(known, func(k contain.Gap) bool { return changes(&k) && keyOf(&k) == keyOf(&g) })
	})
}
