package compat

import "sluice.dev/report"

var minimumRaised = Rule{
	ID:     "minimum-raised",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A minimum was added, raised or made exclusive",
	Why: `Stored numbers below the new minimum are refused when the field is touched, or with any update where updates are not ratcheted. Where ` +
		`the field has a default below the minimum, the API server refuses the CRD itself.`,
	Help: `Keep the bound for stored objects and refuse only new values, with a validation rule that compares with oldSelf.`,
	Unsafe: Example{
		Old: `
replicas:
  type: integer
  minimum: 0
`, New: `
replicas:
  type: integer
  minimum: 1
`,
	},
	Safe: Example{Old: `
replicas:
  type: integer
  minimum: 1
`, New: `
replicas:
  type: integer
  minimum: 0
`},
	claim: tightened("minimum", "raised"),
}
