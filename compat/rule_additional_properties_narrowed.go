package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var additionalPropertiesNarrowed = Rule{
	ID:    "additional-properties-narrowed",
	Level: report.DataLost,
	Title: "A map no longer keeps what it kept",
	Why: `additionalProperties lets a map have any key. Without it, or with a schema for the values that declares fewer fields, keys or fields of ` +
		`stored objects are dropped when they are read, and are gone for good with the next write.`,
	Help: `Keep additionalProperties next to newly declared properties by marking the object with x-kubernetes-preserve-unknown-fields (a structural ` +
		`schema cannot have both properties and additionalProperties), or add a new field with the new form.`,
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
	Safe: Example{Old: `
labels:
  type: object
  properties:
    app:
      type: string
`, New: `
labels:
  type: object
  additionalProperties:
    type: string
`},
	claim: func(c *change) (string, bool) {
		if c.Harm != contain.Pruned || c.Keyword == "nullable" || c.last().Kind == contain.Field && c.Keyword == "properties" {
			return "", false
		}
		if c.Keyword == "additionalProperties" {
			return "the fields of objects here are no longer kept", true
		}
		return "keys that are not declared are no longer kept", true
	},
}
