package compat

import "sluice.dev/report"

var anyOfTightened = Rule{
	ID:     "any-of-tightened",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "anyOf lets less through",
	Why: `At least one branch of anyOf has to accept a value. A branch that is gone or stricter, or an anyOf that is new, refuses stored values ` +
		`that the old schema accepted. Branches are compared by what all of them let through together, not one by one: their order does not ` +
		`matter.`,
	Help: `Keep the branch, or write the condition as a validation rule that lets stored values be as they are (oldSelf).`,
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
	Safe: Example{Old: `
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
  - required: [path]
  - required: [url]
`},
	claim: junctor("anyOf", "anyOf lets less through than before"),
}
