package compat

import "sluice.dev/report"

// schemaChanged is the last rule about schemas, and claims whatever is left: so each gap of the prover has a finding.
// Its ID also stands for comparisons that were not finished.
var schemaChanged = Rule{
	ID:     "schema-changed",
	Level:  report.ObjectsStuck,
	Varies: true,
	Title:  "The schema changed in a way that has no rule of its own",
	Why: `This rule covers changes that no other rule claims. Some schemas are too large to be compared. Others have keywords that no ` +
		`valid CRD can have ($ref, patternProperties, dependencies, definitions), so their meaning is not defined. Without a witness, ` +
		`the finding is undecided.`,
	Help: `Remove the keyword that the API server refuses. If the schema is too large, split it. Or keep embedded schemas free-form with ` +
		`x-kubernetes-preserve-unknown-fields.`,
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
	Instead: `
labels:
  type: object
  x-kubernetes-preserve-unknown-fields: true
`,
	claim: func(c *change) (string, bool) {
		if c.Keyword == "schema" {
			return "the schemas could not be compared to the end", true
		}
		return "the schema changed at " + compactJSON(c.Keyword), true
	},
}
