package compat

import "sluice.dev/report"

// anyOfTightened claims what the prover says of anyOf as a whole: a value that some branch accepted and none accepts
// now.
var anyOfTightened = Rule{
	ID:     "any-of-tightened",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "anyOf accepts fewer values",
	Why: `At least one branch of anyOf has to accept a value. If a branch is removed or becomes stricter, or if anyOf is new, it refuses ` +
		`stored values that the old schema accepted. Sluice compares the branches by the values that all of them accept together, not one by ` +
		`one. Their order does not matter.`,
	Help: `Keep the branch, and write the condition as a validation rule that accepts a stored value as long as it stays unchanged. No stored ` +
		`object is harmed then. The check still reports writers-refused for new values; suppress that finding when the writers are ready.`,
	Unsafe: Example{
		Old: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
  anyOf:
  - required: [url]
  - required: [path]
`, New: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
  anyOf:
  - required: [url]
`,
	},
	Instead: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
  anyOf:
  - required: [url]
  - required: [path]
  x-kubernetes-validations:
  - rule: has(self.url) || oldSelf.hasValue() && self == oldSelf.value()
    optionalOldSelf: true
    message: url is required
`,
	claim: claimJunctor("anyOf", "anyOf accepts fewer values than before"),
}
