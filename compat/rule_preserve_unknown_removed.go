package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var preserveUnknownRemoved = Rule{
	ID:    "preserve-unknown-removed",
	Level: report.DataLost,
	Title: "Unknown fields are no longer kept",
	Why: `With x-kubernetes-preserve-unknown-fields an object keeps every field, declared or not. Without it, whatever the schema does not declare ` +
		`is dropped as soon as an object is read in the new schema, and is gone for good with its next write, even one by a controller that touches ` +
		`something else.`,
	Help: `Declare every field that stored objects hold before the marker goes, and look at the stored objects to find them. Where fields are not ` +
		`known in advance, keep the marker.`,
	Unsafe: Example{
		Old: `
config:
  type: object
  x-kubernetes-preserve-unknown-fields: true
`, New: `
config:
  type: object
  properties:
    level:
      type: string
`,
	},
	Safe: Example{Old: `
config:
  type: object
  properties:
    level:
      type: string
`, New: `
config:
  type: object
  x-kubernetes-preserve-unknown-fields: true
  properties:
    level:
      type: string
`},
	claim: func(c *change) (string, bool) {
		if c.Harm != contain.Pruned || c.Keyword == "nullable" {
			return "", false
		}
		if c.last().Kind == contain.Field && c.old != nil {
			return "", false
		}
		if c.oldParent != nil && !c.oldParent.PreserveUnknown {
			return "", false
		}
		return "unknown fields are no longer kept", true
	},
}
