package compat

import "sluice.dev/report"

// defaultInvalid claims gaps that come of the new default itself: an object without the field is refused for a value
// that nobody wrote. Since structural schemas the API server refuses such a CRD, so that a comparison of manifests
// mostly has crd-refused-by-api-server beside it.
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
