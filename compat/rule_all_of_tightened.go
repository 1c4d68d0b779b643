package compat

import "sluice.dev/report"

var allOfTightened = Rule{
	ID:     "all-of-tightened",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A branch of allOf lets less through",
	Why:    `Every branch of allOf has to accept a value. A branch that is new, or stricter than it was, refuses stored values that the old schema accepted.`,
	Help:   `Write the condition as a validation rule that lets stored values be as they are (oldSelf), or widen the branch.`,
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
	Safe: Example{Old: `
size:
  type: integer
  allOf:
  - minimum: 1
  - maximum: 9
`, New: `
size:
  type: integer
  allOf:
  - maximum: 9
`},
	claim: junctor("allOf", "allOf lets less through than before"),
}
