package compat

import "sluice.dev/report"

var schemaChanged = Rule{
	ID:     "schema-changed",
	Level:  report.ObjectsStuck,
	Varies: true,
	Title:  "The schema changed in a way that has no rule of its own",
	Why: `What no other rule claims: schemas that are too large to be compared, and schemas with keywords that no valid CRD can have ($ref, ` +
		`patternProperties, dependencies, definitions), of which nobody can say what they mean. It is reported as undecided, unless there is a witness.`,
	Help: `Take out the keyword that the API server refuses. A schema that is too large may be split, or kept free-form with ` +
		`x-kubernetes-preserve-unknown-fields where it embeds other schemas.`,
	Unsafe: Example{Old: `
labels:
  type: object
  x-kubernetes-preserve-unknown-fields: true
`, New: `
labels:
  type: object
  x-kubernetes-preserve-unknown-fields: true
  patternProperties:
    ^a:
      type: string
`},
	Safe: Example{Old: `
labels:
  type: object
`, New: `
labels:
  type: object
  x-kubernetes-preserve-unknown-fields: true
`},
	claim: func(c *change) (string, bool) {
		if c.Keyword == "schema" {
			return "the schemas could not be compared to the end", true
		}
		return "the schema changed at " + quote(c.Keyword), true
	},
}
