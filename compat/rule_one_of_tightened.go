package compat

import "sluice.dev/report"

// oneOfTightened claims values that exactly one branch accepted, and that now none or several accept.
var oneOfTightened = Rule{
	ID:     "one-of-tightened",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "oneOf accepts fewer values",
	Why: `Exactly one branch of oneOf has to accept a value. A branch that is removed or stricter refuses stored values. A branch that is new ` +
		`or wider refuses some too: values that two branches accept. The order of the branches does not matter.`,
	Help: `Use anyOf if several branches may accept the same value. Otherwise make the branches exclude each other, so that a new ` +
		`branch refuses no old value.`,
	Unsafe: Example{
		Old: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
  oneOf:
  - required: [url]
`, New: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
  oneOf:
  - required: [url]
  - required: [path]
`,
	},
	Instead: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
  anyOf:
  - required: [url]
  - required: [path]
`,
	claim: claimJunctor("oneOf", "oneOf accepts fewer values than before"),
}
