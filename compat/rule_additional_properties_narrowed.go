package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// additionalPropertiesNarrowed claims pruned keys of maps. It stands behind preserve-unknown-removed, which claims
// keys that were kept without a schema, and before property-removed, which claims fields with a name.
var additionalPropertiesNarrowed = Rule{
	ID:    "additional-properties-narrowed",
	Level: report.DataLost,
	Title: "A map no longer keeps all of its keys or fields",
	Why: `additionalProperties lets a map have any key. Without it, or with a schema that declares fewer fields for the values, the API server ` +
		`drops keys or fields of stored objects when it reads them. The next write removes them for good.`,
	Help: `Keep the map, and add a new field with the new form. Or replace additionalProperties with properties and ` +
		`x-kubernetes-preserve-unknown-fields: a structural schema cannot have both properties and additionalProperties.`,
	Unsafe: Example{
		Old: `
labels:
  type: object
  additionalProperties:
    type: string
`, New: `
labels:
  type: object
  properties:
    app:
      type: string
`,
	},
	Instead: `
labels:
  type: object
  additionalProperties:
    type: string
app:
  type: string
`,
	claim: func(c *change) (string, bool) {
		if c.Harm != contain.Pruned || c.Keyword == "nullable" || c.lastStep().Kind == contain.Field && c.Keyword == "properties" {
			return "", false
		}
		if c.Keyword == "additionalProperties" {
			return "the fields of objects here are no longer kept", true
		}
		return "keys that are not declared are no longer kept", true
	},
}
