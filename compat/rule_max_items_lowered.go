package compat

import "sluice.dev/report"

// maxItemsLowered claims lists with more items than the new bound.
var maxItemsLowered = Rule{
	ID:     "max-items-lowered",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "maxItems was added or lowered",
	Why: `Stored lists may have more items. Ratcheting tolerates such a list only while it stays unchanged. Without ratcheting, the ` +
		`API server refuses every update of the object. Authors often add a bound only to make validation rules cheap enough.`,
	Help: `Choose a bound that no stored list exceeds. Or write the new bound as a validation rule that accepts a stored list as long as it ` +
		`stays unchanged. The check then reports writers-refused for new lists; suppress that finding when the writers are ready.`,
	Unsafe: Example{
		Old: oneField("ports", "type: array", "maxItems: 2", exampleField("items", "type: integer")),
		New: oneField("ports", "type: array", "maxItems: 1", exampleField("items", "type: integer")),
	},
	Instead: oneField("ports", "type: array",
		"maxItems: 2", exampleField("items", "type: integer"), toleratingRule("self.size() <= 1", "at most 1 port")),
	claim: claimTightened("maxItems", "lowered"),
}
