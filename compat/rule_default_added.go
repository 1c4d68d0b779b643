package compat

import (
	"context"

	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// defaultAdded claims what is left of gaps about defaults: a value where there was none. Besides, it reports a
// default for items or values that were null, and a default of a new storage version, which the clients of all
// versions see.
var defaultAdded = Rule{
	ID:    "default-added",
	Level: report.ReadersSurprised,
	Title: "A default was added",
	Why: `The API server now serves objects without the field, stored ones included, with the default. Some readers gave a missing ` +
		`field a meaning of its own, and now never see it missing. Tools that compare the objects that they sent with the served ones ` +
		`find a difference. If another version stores the objects, its defaults count for all versions.`,
	Help:    `Choose as default the value that a missing field has meant so far. Otherwise leave the default out, and describe it.`,
	Unsafe:  Example{Old: oneField("retries", "type: integer"), New: oneField("retries", "type: integer", "default: 3")},
	Instead: oneField("retries", "type: integer", "description: How often to retry; 3 if not set."),
	claim: func(c *change) (string, bool) {
		return "default " + inlineJSON(c.After) + " was added", c.Harm == contain.Redefaulted
	},
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		return firstOfEachPlace(append(readersRule("default-added")(ctx, c), c.defaultsNewToReaders(ctx)...))
	},
}
