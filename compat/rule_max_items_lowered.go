package compat

import "sluice.dev/report"

var maxItemsLowered = Rule{
	ID:     "max-items-lowered",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "maxItems was added or lowered",
	Why: `Stored lists with more items are refused when they are touched, or with any update where updates are not ratcheted. A bound is often ` +
		`added only to make validation rules cheap enough.`,
	Help: `Choose a bound that no stored list exceeds.`,
	Unsafe: Example{
		Old: `
ports:
  type: array
  maxItems: 2
  items:
    type: integer
`, New: `
ports:
  type: array
  maxItems: 1
  items:
    type: integer
`,
	},
	Safe: Example{Old: `
ports:
  type: array
  maxItems: 1
  items:
    type: integer
`, New: `
ports:
  type: array
  maxItems: 2
  items:
    type: integer
`},
	claim: tightened("maxItems", "lowered"),
}
