package compat

import "sluice.dev/report"

// minItemsRaised claims lists with fewer items than the new bound.
var minItemsRaised = Rule{
	ID:     "min-items-raised",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "minItems was added or raised",
	Why: `Stored lists may have fewer items. Ratcheting tolerates such a list only while it stays unchanged. Without ratcheting, the ` +
		`API server refuses every update of the object. The most frequent case is the empty list.`,
	Help: `Accept the empty list, and let the controller treat it as a missing value. Or write the new bound as a validation rule that accepts ` +
		`a stored list as long as it stays unchanged; then the check reports writers-refused for new lists.`,
	Unsafe: Example{
		Old: oneField("ports", "type: array", exampleField("items", "type: integer")),
		New: oneField("ports", "type: array", "minItems: 1", exampleField("items", "type: integer")),
	},
	Instead: oneField("ports", "type: array",
		"description: An empty list means the default ports.", exampleField("items", "type: integer")),
	claim: claimTightened("minItems", "raised"),
}
