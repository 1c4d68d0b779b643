package compat

import "sluice.dev/report"

var formatAdded = Rule{
	ID:     "format-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A format was added that the API server checks",
	Why: `The API server checks some formats (date-time, ipv4, uuid, int32 and others) and ignores those that it does not know. Which ones it checks ` +
		`depends on its version. Stored values that are not of the format are refused when the field is touched.`,
	Help: `Look at the stored objects first. If the format is meant as documentation, put it into the description.`,
	Unsafe: Example{
		Old: `
address:
  type: string
`, New: `
address:
  type: string
  format: ipv4
`,
	},
	Safe: Example{Old: `
address:
  type: string
`, New: `
address:
  type: string
  format: ip-or-name
`},
	claim: func(c *change) (string, bool) {
		return "format " + inline(c.After) + " was added", c.is("format") && (c.old == nil || c.old.Format == "")
	},
}
