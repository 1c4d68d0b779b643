package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var propertyRemoved = Rule{
	ID:    "property-removed",
	Level: report.DataLost,
	Title: "A property is gone, so that its value is pruned",
	Why: `The API server drops fields that the schema does not declare. Stored objects that have the field lose it when they are next written, by ` +
		`anybody and for whatever reason; requests that send it are accepted, and the field is silently left out. Rolling back does not bring the data back.

A property below one that is gone is not reported again.`,
	Help: `Keep the property and say in its description that it is no longer used. To rename a field, add the new one, let the controller copy the ` +
		`value, and remove the old one only in a later version of the API (with conversion) or when no stored object has it any more.`,
	Unsafe: Example{
		Old: `
replicas:
  type: integer
legacyMode:
  type: string
`, New: `
replicas:
  type: integer
`,
	},
	Safe: Example{Old: `
config:
  type: object
  x-kubernetes-preserve-unknown-fields: true
  properties:
    legacyMode:
      type: string
`, New: `
config:
  type: object
  x-kubernetes-preserve-unknown-fields: true
`},
	claim: func(c *change) (string, bool) {
		if c.Harm != contain.Pruned || c.Keyword != "properties" || c.last().Kind != contain.Field {
			return "", false
		}
		return "property " + c.name() + " is gone, so its value is pruned", true
	},
}
