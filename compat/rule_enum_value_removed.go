package compat

import "sluice.dev/report"

var enumValueRemoved = Rule{
	ID:     "enum-value-removed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A value is gone from an enum",
	Why: `Stored objects may hold the value. They are refused when the field is touched, or with any update where updates are not ratcheted; and ` +
		`manifests that name the value can no longer be applied.`,
	Help: `Keep the value in the enum and let the controller treat it as the one that replaces it. Refuse it for new objects only, with a validation ` +
		`rule that compares with oldSelf. Remove it when no stored object holds it.`,
	Unsafe: Example{
		Old: `
mode:
  type: string
  enum: [fast, slow, legacy]
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
`, New: `
mode:
  type: string
  enum: [slow, fast]
`},
	claim: func(c *change) (string, bool) {
		if !c.is("enum") || c.Before == nil {
			return "", false
		}
		before, _ := c.Before.([]any)
		after, _ := c.After.([]any)
		gone := minus(before, after)
		if len(gone) == 0 {
			return "the enum lets less through than before", true
		}
		return plural(len(gone), "value") + " " + list(gone) + " removed from the enum", true
	},
}
