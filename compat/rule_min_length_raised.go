package compat

import "sluice.dev/report"

var minLengthRaised = Rule{
	ID:     "min-length-raised",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "minLength was added or raised",
	Why: `The API server refuses shorter stored strings when somebody touches the field, and with every update where updates are not ` +
		`ratcheted. The most frequent one is the empty string: clients in Go send it for a field that nobody set, unless the field is marked ` +
		`omitempty.`,
	Help: `Accept the empty string as long as clients may send it, and let the controller treat it as a missing value. Or write the new length ` +
		`as a validation rule that accepts a stored value as long as it stays unchanged. The check then reports writers-refused for new ` +
		`values; suppress that finding when the writers are ready.`,
	Unsafe: Example{
		Old: `
title:
  type: string
`, New: `
title:
  type: string
  minLength: 1
`,
	},
	Instead: `
title:
  type: string
  x-kubernetes-validations:
  - rule: self.size() >= 1 || oldSelf.hasValue() && self == oldSelf.value()
    optionalOldSelf: true
    message: title cannot be empty
`,
	claim: tightened("minLength", "raised"),
}
