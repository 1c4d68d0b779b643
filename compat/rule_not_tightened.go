package compat

import "sluice.dev/report"

// notTightened claims values that the schema under not accepts now and did not accept before.
var notTightened = Rule{
	ID:     "not-tightened",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "not accepts fewer values",
	Why: `The API server refuses every value that the schema under not accepts. If not is new, or its schema accepts more than before, it ` +
		`refuses stored values that the old schema accepted.`,
	Help: `Write the condition as a validation rule that accepts a stored value as long as it stays unchanged. No stored object is harmed then. ` +
		`The check still reports writers-refused for new values; suppress that finding when the writers are ready.`,
	Unsafe: Example{
		Old: `
mode:
  type: string
`, New: `
mode:
  type: string
  not:
    enum: [legacy]
`,
	},
	Instead: `
mode:
  type: string
  x-kubernetes-validations:
  - rule: self != "legacy" || oldSelf.hasValue() && self == oldSelf.value()
    optionalOldSelf: true
    message: mode legacy is deprecated
`,
	claim: claimJunctor("not", "not accepts fewer values than before"),
}
