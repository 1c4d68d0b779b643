package compat

import "sluice.dev/report"

var maxLengthLowered = Rule{
	ID:     "max-length-lowered",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "maxLength was added or lowered",
	Why: `Stored strings that are longer are refused when the field is touched, or with any update where updates are not ratcheted. A length is ` +
		`often added only to make validation rules cheap enough.`,
	Help: `Choose a length that no stored string exceeds; a megabyte is still enough to estimate the cost of rules.`,
	Unsafe: Example{
		Old: `
title:
  type: string
  maxLength: 8
`, New: `
title:
  type: string
  maxLength: 4
`,
	},
	Safe: Example{Old: `
title:
  type: string
  maxLength: 4
`, New: `
title:
  type: string
  maxLength: 8
`},
	claim: tightened("maxLength", "lowered"),
}
