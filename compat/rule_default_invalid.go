package compat

import "sluice.dev/report"

var defaultInvalid = Rule{
	ID:     "default-invalid",
	Level:  report.ObjectsStuck,
	Varies: true,
	Title:  "The schema of a field refuses the field's own default",
	Why: `The API server fills in the default and then validates the object. So it refuses every object without the field. Today's API server ` +
		`admits no such CRD; older versions did.`,
	Help: `Choose a default that the field's type, enum, pattern and bounds accept.`,
	Unsafe: Example{
		Old: oneField("replicas", "type: integer", "maximum: 5"),
		New: oneField("replicas", "type: integer", "maximum: 5", "default: 6"),
	},
	Instead: oneField("replicas", "type: integer", "maximum: 5", "default: 5"),
	claim: func(c *change) (string, bool) {
		return "the schema of " + compactJSON(c.Detail) + " refuses its own default", c.isRefusedBy("default") && !isDefaultOfNull(&c.Gap)
	},
}
