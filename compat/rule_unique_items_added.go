package compat

import "sluice.dev/report"

var uniqueItemsAdded = Rule{
	ID:     "unique-items-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "The items of a list now have to differ",
	Why: `The API server refuses stored lists that hold an item twice when somebody touches them, and with every update where updates are not ` +
		`ratcheted. In new CRDs the API server refuses uniqueItems: true, because comparing all items with each other takes too long. Its ` +
		`successor is x-kubernetes-list-type: set.`,
	Help: `Leave uniqueItems out, and remove doubles in the controller.`,
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
	Instead: `
ports:
  type: array
  items:
    type: integer
`,
	claim: func(c *change) (string, bool) {
		return "the items now have to differ (uniqueItems)", c.is("uniqueItems")
	},
}
