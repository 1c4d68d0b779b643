package compat

import "sluice.dev/report"

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
		Old: `
labels:
  type: object
  maxProperties: 2
  additionalProperties:
    type: string
`, New: `
labels:
  type: object
  maxProperties: 1
  additionalProperties:
    type: string
`,
	},
	Instead: `
labels:
  type: object
  maxProperties: 2
  additionalProperties:
    type: string
  x-kubernetes-validations:
  - rule: self.size() <= 1 || oldSelf.hasValue() && self == oldSelf.value()
    optionalOldSelf: true
    message: at most 1 label
`,
	claim: claimTightened("maxProperties", "lowered"),
}
