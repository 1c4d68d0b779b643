package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var listForStringRefused = Rule{
	ID:    "list-for-string-refused",
	Title: "A list in place of a string was let through by an oversight, and no longer is",
	Why: `Where a string has a format that the API server checks, its validation lets a list of strings pass as well, which nobody meant. ` +
		`When the format goes, or the type changes, such a list is refused. It is told so that "safe" stays true to the letter; hardly any object has one.

This is a note: it never fails a check.`,
	Help: `Nothing has to be done, unless somebody did write lists there.`,
	Unsafe: Example{
		Old: `
address:
  type: string
  format: ipv4
`, New: `
address:
  type: string
`,
	},
	Safe: Example{Old: `
address:
  type: string
  format: ip-or-name
`, New: `
address:
  type: string
`},
	claim: func(c *change) (string, bool) {
		return "a list was let through in place of the string, by an oversight of the API server, and is refused now",
			c.Keyword == "format" && c.Detail == contain.ListsLetThrough
	},
	outcome: report.Note,
}
