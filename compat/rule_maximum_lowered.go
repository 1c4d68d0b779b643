package compat

import "sluice.dev/report"

var maximumLowered = Rule{
	ID:     "maximum-lowered",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A maximum was added, lowered or made exclusive",
	Why:    `Stored numbers above the new maximum are refused when the field is touched, or with any update where updates are not ratcheted.`,
	Help:   `Keep the bound for stored objects and refuse only new values, with a validation rule that compares with oldSelf. Or cap the value in the controller.`,
	Unsafe: Example{
		Old: `
replicas:
  type: integer
  maximum: 100
`, New: `
replicas:
  type: integer
  maximum: 50
`,
	},
	Safe: Example{Old: `
replicas:
  type: integer
  maximum: 50
`, New: `
replicas:
  type: integer
`},
	claim: tightened("maximum", "lowered"),
}
