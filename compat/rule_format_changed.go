package compat

import "sluice.dev/report"

var formatChanged = Rule{
	ID:     "format-changed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A format changed to one that the old values may not have",
	Why: `Stored values are of the old format. Where the API server checks the new one, those that do not have it are refused when the field is ` +
		`touched: from ipv4 to ipv6 nothing fits any more, from int64 to int32 the large numbers do not.`,
	Help: `Keep the format, or drop it. For another kind of value add another field.`,
	Unsafe: Example{
		Old: `
size:
  type: integer
  format: int64
`, New: `
size:
  type: integer
  format: int32
`,
	},
	Safe: Example{Old: `
size:
  type: integer
  format: int32
`, New: `
size:
  type: integer
  format: int64
`},
	claim: func(c *change) (string, bool) {
		if !c.is("format") || c.old == nil {
			return "", false
		}
		c.Before = c.old.Format // the prover leaves out formats that are not checked
		return "format changed from " + inline(c.Before) + " to " + inline(c.After), true
	},
}
