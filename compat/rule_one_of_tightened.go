package compat

import "sluice.dev/report"

var oneOfTightened = Rule{
	ID:     "one-of-tightened",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "oneOf lets less through",
	Why: `Exactly one branch of oneOf has to accept a value. Not only a branch that is gone or stricter refuses stored values, but also one that ` +
		`is new or wider: values that two branches accept are refused. The order of branches does not matter.`,
	Help: `Make branches exclude each other, so that a new one takes nothing away. Where several may hold, use anyOf.`,
	Unsafe: Example{
		Old: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
  oneOf:
  - required: [url]
`, New: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
  oneOf:
  - required: [url]
  - required: [path]
`,
	},
	Safe: Example{Old: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
  oneOf:
  - required: [url]
  - required: [path]
`, New: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
`},
	claim: junctor("oneOf", "oneOf lets less through than before"),
}
