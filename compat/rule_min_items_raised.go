package compat

import "sluice.dev/report"

var minItemsRaised = Rule{
	ID:     "min-items-raised",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "minItems was added or raised",
	Why:    `Stored lists with fewer items are refused when they are touched, or with any update where updates are not ratcheted. The usual one is the empty list.`,
	Help:   `Let the empty list through and treat it as left out, or refuse only new ones with a validation rule that compares with oldSelf.`,
	Unsafe: Example{
		Old: `
ports:
  type: array
  items:
    type: integer
`, New: `
ports:
  type: array
  minItems: 1
  items:
    type: integer
`,
	},
	Safe: Example{Old: `
ports:
  type: array
  minItems: 2
  items:
    type: integer
`, New: `
ports:
  type: array
  minItems: 1
  items:
    type: integer
`},
	claim: tightened("minItems", "raised"),
}
