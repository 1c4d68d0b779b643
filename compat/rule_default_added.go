package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var defaultAdded = Rule{
	ID:    "default-added",
	Level: report.ReadersSurprised,
	Title: "A default was added",
	Why: `Objects that leave the field out are served with the default from now on, stored ones too. Readers that took "left out" for a value of its ` +
		`own no longer see it, and tools that compare what they sent with what is served find a difference.`,
	Help: `Choose as default what "left out" has meant so far.`,
	Unsafe: Example{
		Old: `
retries:
  type: integer
`, New: `
retries:
  type: integer
  default: 3
`,
	},
	Safe: Example{Old: `
retries:
  type: integer
  default: 3
`, New: `
retries:
  type: integer
  default: 3
  description: How often to try again.
`},
	claim: func(c *change) (string, bool) {
		return "default " + inline(c.After) + " was added", c.Harm == contain.Redefaulted
	},
}
