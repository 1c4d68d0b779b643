package compat

import "sluice.dev/report"

var uniqueItemsAdded = Rule{
	ID:     "unique-items-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "Items of a list have to differ now",
	Why: `Stored lists that hold an item twice are refused when they are touched, or with any update where updates are not ratcheted. The API server ` +
		`refuses uniqueItems: true in new CRDs, because comparing all items with each other takes too long; x-kubernetes-list-type: set is its successor.`,
	Help: `Drop doubles in the controller instead.`,
	Unsafe: Example{
		Old: `
ports:
  type: array
  items:
    type: integer
`, New: `
ports:
  type: array
  uniqueItems: true
  items:
    type: integer
`,
	},
	Safe: Example{Old: `
ports:
  type: array
  x-kubernetes-list-type: set
  items:
    type: integer
`, New: `
ports:
  type: array
  items:
    type: integer
`},
	claim: func(c *change) (string, bool) { return "items have to differ now (uniqueItems)", c.is("uniqueItems") },
}
