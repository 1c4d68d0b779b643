package compat

import "sluice.dev/report"

var maxPropertiesLowered = Rule{
	ID:     "max-properties-lowered",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "maxProperties was added or lowered",
	Why:    `Stored objects and maps with more keys are refused when they are touched, or with any update where updates are not ratcheted.`,
	Help:   `Choose a bound that no stored map exceeds.`,
	Unsafe: Example{
		Old: `
labels:
  type: object
  maxProperties: 2
  additionalProperties:
    type: string
`, New: `
labels:
  type: object
  maxProperties: 1
  additionalProperties:
    type: string
`,
	},
	Safe: Example{Old: `
labels:
  type: object
  maxProperties: 1
  additionalProperties:
    type: string
`, New: `
labels:
  type: object
  maxProperties: 2
  additionalProperties:
    type: string
`},
	claim: tightened("maxProperties", "lowered"),
}
