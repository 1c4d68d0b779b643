package compat

import "sluice.dev/report"

var patternAdded = Rule{
	ID:     "pattern-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A pattern was added",
	Why: `Stored strings were never held against the pattern. Those that do not match are refused when the field is touched, or with any update ` +
		`where updates are not ratcheted. A pattern without ^ and $ matches anywhere in the string, which is rarely what was meant.`,
	Help: `Look at the stored objects for strings that do not match. Widen the pattern so that it matches them, or refuse only new values with a ` +
		`validation rule that compares with oldSelf.`,
	Unsafe: Example{
		Old: `
host:
  type: string
`, New: `
host:
  type: string
  pattern: ^[a-z]+$
`,
	},
	Safe: Example{Old: `
host:
  type: string
  enum: [a, b]
`, New: `
host:
  type: string
  enum: [a, b]
  pattern: ^[a-z]+$
`},
	claim: added("pattern"),
}
