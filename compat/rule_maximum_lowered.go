package compat

import "sluice.dev/report"

// maximumLowered claims numbers above the new bound, and equal to it if it is exclusive now: exclusiveMaximum is a
// part of maximum here, not a keyword of its own.
var maximumLowered = Rule{
	ID:     "maximum-lowered",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A maximum was added, lowered or made exclusive",
	Why: `Stored numbers may be above the new maximum. Ratcheting tolerates such a number only while it stays unchanged. Without ` +
		`ratcheting, the API server refuses every update of the object.`,
	Help: `Keep the old bound, and write the new one as a validation rule that accepts a stored value as long as it stays unchanged. No stored ` +
		`object is harmed then. The check still reports writers-refused for new values; suppress that finding when the writers are ready. Or ` +
		`cap the value in the controller.`,
	Unsafe: Example{
		Old: oneField("replicas", "type: integer", "maximum: 100"),
		New: oneField("replicas", "type: integer", "maximum: 50"),
	},
	Instead: oneField("replicas", "type: integer", "maximum: 100", toleratingRule("self <= 50", "at most 50 replicas")),
	claim:   claimTightened("maximum", "lowered"),
}
