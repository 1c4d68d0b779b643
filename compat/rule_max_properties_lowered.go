package compat

import "sluice.dev/report"

// maxPropertiesLowered claims objects and maps with more keys than the new bound. Unknown fields that are pruned do
// not count: the API server prunes first.
var maxPropertiesLowered = Rule{
	ID:     "max-properties-lowered",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "maxProperties was added or lowered",
	Why: `Stored objects and maps may have more keys. Ratcheting tolerates such a value only while it stays unchanged. Without ` +
		`ratcheting, the API server refuses every update.`,
	Help: `Choose a bound that no stored map exceeds. Or write the new bound as a validation rule that accepts a stored map as long as it stays ` +
		`unchanged. The check then reports writers-refused for new maps; suppress that finding when the writers are ready.`,
	Unsafe: Example{
		Old: oneField("labels", "type: object", "maxProperties: 2", exampleField("additionalProperties", "type: string")),
		New: oneField("labels", "type: object", "maxProperties: 1", exampleField("additionalProperties", "type: string")),
	},
	Instead: oneField("labels", "type: object",
		"maxProperties: 2", exampleField("additionalProperties", "type: string"), toleratingRule("self.size() <= 1", "at most 1 label")),
	claim: claimTightened("maxProperties", "lowered"),
}
