package compat

import "sluice.dev/report"

var nullableAdded = Rule{
	ID:    "nullable-added",
	Level: report.ReadersSurprised,
	Title: "null is allowed now",
	Why: `So far the API server dropped a null, or filled in the default; now it is stored and served. Readers have to tell null from a field that is ` +
		`left out, and typed clients that are not in Go may fail on it. A default no longer stands in for null.`,
	Help: `Release readers that expect null before anybody writes it.`,
	Unsafe: Example{
		Old: `
limit:
  type: integer
`, New: `
limit:
  type: integer
  nullable: true
`,
	},
	Safe: Example{Old: `
limit:
  type: integer
  nullable: true
  maximum: 10
`, New: `
limit:
  type: integer
  nullable: true
`},
	whole:  readers("nullable-added"),
	inSpec: true,
}
