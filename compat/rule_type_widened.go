package compat

import "sluice.dev/report"

var typeWidened = Rule{
	ID:    "type-widened",
	Level: report.ReadersSurprised,
	Title: "The new type takes more than the old one",
	Why: `From integer to number or int-or-string, or to anything: stored objects stay good, but a typed reader of the old schema fails to decode an ` +
		`object that holds a value of the new kind, and with it whole lists and watches. Server-side apply is not affected.`,
	Help: `Release readers that can decode the wider type before anybody writes such values.`,
	Unsafe: Example{
		Old: `
timeout:
  type: integer
`, New: `
timeout:
  x-kubernetes-int-or-string: true
`,
	},
	Safe: Example{Old: `
timeout:
  type: integer
  maximum: 10
`, New: `
timeout:
  type: integer
`},
	whole:  readers("type-widened"),
	inSpec: true,
}
