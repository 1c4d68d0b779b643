package compat

import "sluice.dev/report"

var minPropertiesRaised = Rule{
	ID:     "min-properties-raised",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "minProperties was added or raised",
	Why: `Stored objects and maps with fewer keys are refused when they are touched, or with any update where updates are not ratcheted. The ` +
		`usual one is the empty object.`,
	Help: `Let the empty object through and treat it as left out, or refuse only new ones with a validation rule that compares with oldSelf.`,
	Unsafe: Example{
		Old: `
labels:
  type: object
  additionalProperties:
    type: string
`, New: `
labels:
  type: object
  minProperties: 1
  additionalProperties:
    type: string
`,
	},
	Safe: Example{Old: `
labels:
  type: object
  minProperties: 2
  additionalProperties:
    type: string
`, New: `
labels:
  type: object
  minProperties: 1
  additionalProperties:
    type: string
`},
	claim: tightened("minProperties", "raised"),
}
