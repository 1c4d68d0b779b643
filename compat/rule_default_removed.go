package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var defaultRemoved = Rule{
	ID:    "default-removed",
	Level: report.MeaningChanged,
	Title: "A default is gone",
	Why: `Defaults are filled in when an object is written and also whenever it is read. An object that leaves the field out looked as if it had the ` +
		`default; from now on readers find nothing there. What that means is up to each of them, and typed clients in Go see zero.`,
	Help: `Keep the default. Where the controller is to decide, let a release of it write the old value into the objects that lack it before the ` +
		`default goes.`,
	Unsafe: Example{
		Old: `
retries:
  type: integer
  default: 3
`, New: `
retries:
  type: integer
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
		return "default " + inline(c.Before) + " is gone", c.Harm == contain.Redefaulted && c.After == nil
	},
}
