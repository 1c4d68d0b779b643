package compat

import "sluice.dev/report"

var enumRemoved = Rule{
	ID:    "enum-removed",
	Level: report.ReadersSurprised,
	Title: "An enum is gone, so that any value is allowed",
	Why:   `Readers could rely on the listed values and now have to expect any. After a rollback, objects that hold another value are refused.`,
	Help:  `Let readers check the value themselves, or keep the enum and add the values that are needed.`,
	Unsafe: Example{
		Old: `
mode:
  type: string
  enum: [fast, slow]
`, New: `
mode:
  type: string
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
	whole:  readers("enum-removed"),
	inSpec: true,
}
