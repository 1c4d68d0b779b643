package compat

import "sluice.dev/report"

// minimumRaised is maximum-lowered for the other end, exclusiveMinimum included.
var minimumRaised = Rule{
	ID:     "minimum-raised",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A minimum was added, raised or made exclusive",
	Why: `Stored numbers may be below the new minimum. Ratcheting tolerates such a number only while it stays unchanged. Without ` +
		`ratcheting, the API server refuses every update of the object. If the field has a default below the minimum, the API server ` +
		`refuses the CRD itself.`,
	Help: `Keep the old bound, and write the new one as a validation rule that accepts a stored value as long as it stays unchanged. No stored ` +
		`object is harmed then. The check still reports writers-refused for new values; suppress that finding when the writers are ready.`,
	Unsafe: Example{
		Old: oneField("replicas", "type: integer", "minimum: 0"),
		New: oneField("replicas", "type: integer", "minimum: 1"),
	},
	Instead: oneField("replicas", "type: integer", "minimum: 0", toleratingRule("self >= 1", "at least 1 replica")),
	claim:   claimTightened("minimum", "raised"),
}
