package compat

import "sluice.dev/report"

var enumAdded = Rule{
	ID:     "enum-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "Only listed values are allowed where any was",
	Why: `Stored objects may hold other values: an empty string, another spelling, a value that only one user ever needed. They are refused when the ` +
		`field is touched, or with any update where updates are not ratcheted.`,
	Help: `List every value that may be stored, the empty string included, or refuse only new values with a validation rule that compares with oldSelf.`,
	Unsafe: Example{
		Old: `
mode:
  type: string
`, New: `
mode:
  type: string
  enum: [fast, slow]
`,
	},
	Safe: Example{Old: `
mode:
  type: string
  enum: [fast, slow]
  maxLength: 10
`, New: `
mode:
  type: string
  enum: [fast, slow]
`},
	claim: func(c *change) (string, bool) {
		after, _ := c.After.([]any)
		return "only " + list(after) + " are allowed now", c.is("enum") && c.Before == nil
	},
}
