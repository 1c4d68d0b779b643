package compat

import "sluice.dev/report"

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
		Old: `
ports:
  type: array
  maxItems: 2
  items:
    type: integer
`, New: `
ports:
  type: array
  maxItems: 1
  items:
    type: integer
`,
	},
	Instead: `
ports:
  type: array
  maxItems: 2
  items:
    type: integer
  x-kubernetes-validations:
  - rule: self.size() <= 1 || oldSelf.hasValue() && self == oldSelf.value()
    optionalOldSelf: true
    message: at most 1 port
`,
	claim: claimTightened("maxItems", "lowered"),
}
