package compat

import "sluice.dev/report"

var patternChanged = Rule{
	ID:     "pattern-changed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A pattern no longer matches everything that it matched",
	Why: `The two patterns are compared as sets of strings: the witness matches the old one and not the new one. Stored objects with such a string ` +
		`are refused when the field is touched, or with any update where updates are not ratcheted. A pattern that is only written differently, or that ` +
		`matches more than before, is not reported.`,
	Help: `Let the new pattern match all that the old one does, for example by joining both with |.`,
	Unsafe: Example{
		Old: `
host:
  type: string
  pattern: ^[a-z]*$
`, New: `
host:
  type: string
  pattern: ^[a-z]+$
`,
	},
	Safe: Example{Old: `
host:
  type: string
  pattern: ^[a-z]+$
`, New: `
host:
  type: string
`},
	claim: changed("pattern"),
}
