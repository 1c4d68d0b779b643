package compat

import "sluice.dev/report"

var multipleOfChanged = Rule{
	ID:     "multiple-of-changed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "multipleOf was added or changed",
	Why: `Stored numbers that are no multiple of the new divisor are refused when the field is touched, or with any update where updates are not ` +
		`ratcheted. A divisor of the old one lets everything through that the old one did, and is not reported.`,
	Help: `Choose a divisor of the old value, or round in the controller.`,
	Unsafe: Example{
		Old: `
size:
  type: integer
  multipleOf: 2
`, New: `
size:
  type: integer
  multipleOf: 4
`,
	},
	Safe: Example{Old: `
size:
  type: integer
  multipleOf: 4
`, New: `
size:
  type: integer
`},
	claim: tightened("multipleOf", "changed"),
}
