package compat

import "sluice.dev/report"

// uniqueItemsAdded claims lists with equal items. The API server refuses the keyword in a CRD that it has not
// stored with it, so crd-refused-by-api-server comes beside it.
var uniqueItemsAdded = Rule{
	ID:     "unique-items-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "The items of a list now have to differ",
	Why: `Stored lists may hold an item twice. Ratcheting tolerates such a list only while it stays unchanged. Without ratcheting, ` +
		`the API server refuses every update of the object. In new CRDs the API server refuses uniqueItems: true, because comparing ` +
		`all items with each other takes too long. Its successor is x-kubernetes-list-type: set.`,
	Help: `Leave uniqueItems out, and remove duplicates in the controller.`,
	Unsafe: Example{
		Old: oneField("ports", "type: array", exampleField("items", "type: integer")),
		New: oneField("ports", "type: array", "uniqueItems: true", exampleField("items", "type: integer")),
	},
	Instead: oneField("ports", "type: array", exampleField("items", "type: integer")),
	claim: func(c *change) (string, bool) {
		return "the items now have to differ (uniqueItems)", c.isRefusedBy("uniqueItems")
	},
}
