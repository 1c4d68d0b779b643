package compat

import "sluice.dev/report"

var notTightened = Rule{
	ID:     "not-tightened",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "not lets less through",
	Why: `What the schema under not accepts is refused. A not that is new, or whose schema accepts more than before, refuses stored values that ` +
		`the old schema accepted.`,
	Help: `Write the condition as a validation rule that lets stored values be as they are (oldSelf).`,
	Unsafe: Example{
		Old: `
mode:
  type: string
`, New: `
mode:
  type: string
  not:
    enum: [legacy]
`,
	},
	Safe: Example{Old: `
mode:
  type: string
  not:
    enum: [legacy]
`, New: `
mode:
  type: string
`},
	claim: junctor("not", "not lets less through than before"),
}
