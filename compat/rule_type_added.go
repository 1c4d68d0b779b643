package compat

import "sluice.dev/report"

var typeAdded = Rule{
	ID:     "type-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "What could be anything now has a type",
	Why: `Below x-kubernetes-preserve-unknown-fields a field can hold any value. Once a type is declared for it, stored objects with another value ` +
		`there are refused when they are updated. It looks as if a field were added, so that reviewers and tools miss it.`,
	Help: `Look at the stored objects for values of other types before the type is declared. Where some may exist, let the field be anything, or use ` +
		`x-kubernetes-int-or-string if that is what they are.`,
	Unsafe: Example{
		Old: `
config:
  type: object
  x-kubernetes-preserve-unknown-fields: true
`, New: `
config:
  type: object
  x-kubernetes-preserve-unknown-fields: true
  properties:
    replicas:
      type: integer
`,
	},
	Safe: Example{Old: `
config:
  type: object
`, New: `
config:
  type: object
  properties:
    replicas:
      type: integer
`},
	claim: func(c *change) (string, bool) {
		if !c.is("type") || c.Before != nil {
			return "", false
		}
		_, to := c.types()
		return "any value was allowed, and now the type is " + to, true
	},
}
