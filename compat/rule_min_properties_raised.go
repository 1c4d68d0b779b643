package compat

import "sluice.dev/report"

// minPropertiesRaised claims objects and maps with fewer keys than the new bound. Keys with a default count, because
// the API server fills them in first.
var minPropertiesRaised = Rule{
	ID:     "min-properties-raised",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "minProperties was added or raised",
	Why: `Stored objects and maps may have fewer keys. Ratcheting tolerates such a value only while it stays unchanged. Without ` +
		`ratcheting, the API server refuses every update. The most frequent case is the empty object.`,
	Help: `Accept the empty object, and let the controller treat it as a missing value. Or write the new bound as a validation rule that ` +
		`accepts a stored object as long as it stays unchanged; then the check reports writers-refused for new objects.`,
	Unsafe: Example{
		Old: oneField("labels", "type: object", exampleField("additionalProperties", "type: string")),
		New: oneField("labels", "type: object", "minProperties: 1", exampleField("additionalProperties", "type: string")),
	},
	Instead: oneField("labels", "type: object",
		"description: An empty map means the default labels.", exampleField("additionalProperties", "type: string")),
	claim: claimTightened("minProperties", "raised"),
}
