package compat

import (
	"context"
	"slices"

	"sluice.dev/schema/contain"
)

// This file asks the prover which objects that one part accepts the other one harms. The answer depends on what else the API server does to an
// object before it is stored: the scale subresource refuses some, and the status subresource drops and fills in others.

// decidePair asks the prover about a pair, once for each pair.
// The order matters. First come the objects as if the status were a field like others. Then come those whose status
// the API server drops or takes from the stored object, and those whose status was written through the subresource.
// Each step adds gaps that the earlier ones did not have.
func (c *comparison) decidePair(ctx context.Context, p pair) []contain.Gap {
	gaps, ok := c.gaps[p]
	if !ok {
		gaps = c.decideHere(ctx, p)
		gaps = append(slices.Clip(gaps), c.withoutStatus(ctx, p, gaps)...)
		gaps = c.inStatusWrites(ctx, p, c.withoutUncheckedWrites(ctx, p, gaps))
		gaps = append(slices.Clip(gaps), c.withUnfilledStatus(ctx, p, gaps)...)
		c.gaps[p] = gaps
	}
	return gaps
}

// decideHere asks the prover about a pair as if there were no status subresource.
// A part whose schema cannot be read gives one gap without a verdict, at the keyword "schema". It becomes an
// undecided finding, and never a safe one.
func (c *comparison) decideHere(ctx context.Context, p pair) []contain.Gap {
	var gaps []contain.Gap
	from := p.from
	if from.buildSchema() != nil || !isUnchangedSchema(p.from, p.to) { // what the scale subresource refuses was never stored
		from = c.afterStep(from, step{kind: stepScale})
	}
	to := p.to
	if from.Name != to.Name {
		from, to = c.afterStep(from, step{kind: stepNameVersion}), c.afterStep(to, step{kind: stepNameVersion})
	}
	err := from.buildSchema()
	if err == nil {
		err = to.buildSchema()
	}
	if err != nil {
		gaps = []contain.Gap{{Keyword: "schema", Harm: contain.Refused, Verdict: contain.Unknown, Reason: err.Error(), Rule: -1}}
	} else {
		gaps = inOwnWords(c.askProver(ctx, from, to), to, p.to)
		gaps = append(slices.Clip(gaps), c.updatedOnly(ctx, from, to, gaps)...)
	}
	return gaps
}

// isUnchangedSchema reports whether both parts have the same schema and it is valid.
func isUnchangedSchema(o, n *part) bool {
	return o.buildSchema() == nil && n.buildSchema() == nil && o.schemaNode().Hash() == n.schemaNode().Hash()
}
