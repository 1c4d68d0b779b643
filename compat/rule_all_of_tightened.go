package compat

import "sluice.dev/report"

// allOfTightened claims what the prover says of allOf as a whole. If it can tell which keyword of a branch refuses
// the value, the rule of that keyword has the gap instead.
var allOfTightened = Rule{
	ID:     "all-of-tightened",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A branch of allOf accepts fewer values",
	Why: `Every branch of allOf has to accept a value. A branch that is new, or stricter than before, refuses stored values that the old ` +
		`schema accepted.`,
	Help: `Write the condition as a validation rule that accepts a stored value as long as it stays unchanged, or widen the branch. With the ` +
		`rule, no stored object is harmed. The check still reports writers-refused for new values; suppress that finding when the writers are ` +
		`ready.`,
	Unsafe: Example{
		Old: `
size:
  type: integer
`, New: `
size:
  type: integer
  allOf:
  - minimum: 1
`,
	},
	Instead: `
size:
  type: integer
  x-kubernetes-validations:
  - rule: self >= 1 || oldSelf.hasValue() && self == oldSelf.value()
    optionalOldSelf: true
    message: size has to be at least 1
`,
	claim: claimJunctor("allOf", "allOf accepts fewer values than before"),
}
