package compat

import "sluice.dev/report"

var defaultInvalid = Rule{
	ID:     "default-invalid",
	Level:  report.ObjectsStuck,
	Varies: true,
	Title:  "A default is refused by its own schema",
	Why: `The default is filled in before an object is validated, and then the object is refused for it: every object that leaves the field out. ` +
		`Today's API server admits no such CRD, older ones did.`,
	Help: `Choose a default that type, enum, pattern and bounds of the field accept.`,
	Unsafe: Example{Old: `
replicas:
  type: integer
`, New: `
replicas:
  type: integer
  maximum: 5
  default: 6
`},
	Safe: Example{Old: `
replicas:
  type: integer
`, New: `
replicas:
  type: integer
  default: 6
`},
	claim: func(c *change) (string, bool) {
		return "the default of " + quote(c.Detail) + " is refused by its own schema", c.is("default")
	},
}
