package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var defaultChanged = Rule{
	ID:    "default-changed",
	Level: report.MeaningChanged,
	Title: "A default changed",
	Why: `Defaults are filled in when an object is written and also whenever it is read. Objects that were stored before the field had its default ` +
		`change under everybody's eyes, without anybody having written them; and a manifest that leaves the field out means something else than it did.`,
	Help: `Keep the default and change the value where it is used. A new version of the API may have another default, if a webhook converts.`,
	Unsafe: Example{
		Old: `
retries:
  type: integer
  default: 3
`, New: `
retries:
  type: integer
  default: 5
`,
	},
	Safe: Example{Old: `
retries:
  type: integer
  default: 3
  maximum: 10
`, New: `
retries:
  type: integer
  default: 3
`},
	claim: func(c *change) (string, bool) {
		return "default changed from " + inline(c.Before) + " to " + inline(c.After), c.Harm == contain.Redefaulted && c.Before != nil
	},
}
