package compat

import "sluice.dev/report"

// defaultRemoved claims a default without successor. It stands before default-changed, which would claim it as well.
var defaultRemoved = Rule{
	ID:    "default-removed",
	Level: report.MeaningChanged,
	Title: "A default was removed",
	Why: `The API server fills in defaults when it stores an object and whenever it reads one. Objects without the field looked as if they had ` +
		`the default; now readers find nothing. Each reader decides what that means, and typed clients in Go see zero.`,
	Help: `Keep the default. To let the controller decide instead, first release a controller that writes the old value into objects ` +
		`without one. Remove the default later.`,
	Unsafe:  Example{Old: oneField("retries", "type: integer", "default: 3"), New: oneField("retries", "type: integer")},
	Instead: oneField("retries", "type: integer", "default: 3"),
	claim: func(c *change) (string, bool) {
		return "default " + inlineJSON(c.Before) + " is gone", c.Keyword == "default" && c.Before != nil && c.After == nil
	},
}
