package compat

import (
	"context"

	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// defaultChanged claims one value in place of another. Besides, it looks at defaults that one version filled in for
// objects of other versions: if the storage version changes, or its schema does, clients of a version without a
// default of its own find another value, or none.
var defaultChanged = Rule{
	ID:    "default-changed",
	Level: report.MeaningChanged,
	Title: "A default changed",
	Why: `The API server fills in defaults when it stores an object and whenever it reads one. If an object was stored before the ` +
		`field had a default, it changes without a write. A manifest without the field now means something else.`,
	Help: `Keep the default, and change the value in the controller that uses it. A new API version can have another default if a ` +
		`webhook converts between the versions.`,
	Unsafe: Example{
		Old: oneField("retries", "type: integer", "default: 3"),
		New: oneField("retries", "type: integer", "default: 5"),
	},
	Instead: oneField("retries", "type: integer",
		"default: 3", "description: How often to retry. The controller retries at least 5 times."),
	claim: func(c *change) (string, bool) {
		return "default changed from " + inlineJSON(c.Before) + " to " + inlineJSON(c.After), c.Harm == contain.Redefaulted && c.Before != nil
	},
	whole: func(ctx context.Context, c *comparison) (out []report.Finding) {
		o, n := storageVersionOf(c.oldParts), storageVersionOf(c.newParts)
		if o == nil || n == nil || len(c.oldConversions) > 0 || len(c.newConversions) > 0 || o.buildSchema() != nil || n.buildSchema() != nil {
			return nil
		}
		out = c.defaultsLostToReaders(ctx, pair{o, n}, true)
		for _, stored := range c.pairs {
			if c.isStored(stored.from.Name) && !isUnchangedSchema(stored.from, stored.to) && stored.to.buildSchema() == nil {
				out = append(out, c.defaultsLostToReaders(ctx, stored, false)...)
			}
		}
		return firstOfEachPlace(out)
	},
}
