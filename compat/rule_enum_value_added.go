package compat

import "sluice.dev/report"

var enumValueAdded = Rule{
	ID:    "enum-value-added",
	Level: report.ReadersSurprised,
	Title: "A value was added to an enum",
	Why: `Readers that were written against the old schema may have a case for each value and none for others: an older controller, a dashboard, a ` +
		`generated client that refuses what it does not know. And after a rollback, objects that hold the new value are refused.`,
	Help: `Release readers that know the value, or ignore unknown ones, before anybody writes it.`,
	Unsafe: Example{
		Old: `
mode:
  type: string
  enum: [fast, slow]
`, New: `
mode:
  type: string
  enum: [fast, slow, adaptive]
`,
	},
	Safe: Example{Old: `
mode:
  type: string
  enum: [fast, slow]
`, New: `
mode:
  type: string
  enum: [slow, fast]
`},
	whole:  readers("enum-value-added"),
	inSpec: true,
}
