package compat

import "sluice.dev/report"

var minLengthRaised = Rule{
	ID:     "min-length-raised",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "minLength was added or raised",
	Why: `Stored strings that are shorter are refused when the field is touched, or with any update where updates are not ratcheted. The usual ` +
		`one is the empty string, which clients in Go send for a field that nobody set, unless it is marked omitempty.`,
	Help: `Let the empty string through as long as clients may send it, and treat it as left out.`,
	Unsafe: Example{
		Old: `
title:
  type: string
`, New: `
title:
  type: string
  minLength: 1
`,
	},
	Safe: Example{Old: `
title:
  type: string
  minLength: 2
`, New: `
title:
  type: string
  minLength: 1
`},
	claim: tightened("minLength", "raised"),
}
