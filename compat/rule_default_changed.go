package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var defaultChanged = Rule{
	ID:    "default-changed",
	Level: report.MeaningChanged,
	Title: "A default changed",
	Why: `The API server fills in defaults when it stores an object and whenever it reads one. If an object was stored before the ` +
		`field had a default, it changes without a write. A manifest without the field now means something else.`,
	Help: `Keep the default, and change the value in the controller that uses it. A new API version can have another default if a ` +
		`webhook converts between the versions.`,
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
	Instead: `
retries:
  type: integer
  default: 3
  description: How often to retry. The controller retries at least 5 times.
`,
	claim: func(c *change) (string, bool) {
		return "default changed from " + inline(c.Before) + " to " + inline(c.After), c.Harm == contain.Redefaulted && c.Before != nil
	},
}
