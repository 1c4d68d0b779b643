package compat

import "sluice.dev/report"

var listTypeChanged = Rule{
	ID:     "list-type-changed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A list became a set or a map of items",
	Why: `A set must not hold a value twice, and a map no two items with the same keys. Stored lists that do are refused. In an update the API server ` +
		`tolerates doubles only where the stored list had them already.`,
	Help: `Leave the list atomic (the default), or make sure that no stored list holds doubles, for example by a release of the controller that removes them.`,
	Unsafe: Example{
		Old: `
ports:
  type: array
  items:
    type: integer
`, New: `
ports:
  type: array
  x-kubernetes-list-type: set
  items:
    type: integer
`,
	},
	Safe: Example{Old: `
ports:
  type: array
  items:
    type: integer
`, New: `
ports:
  type: array
  x-kubernetes-list-type: atomic
  items:
    type: integer
`},
	claim: func(c *change) (string, bool) {
		if !c.is("x-kubernetes-list-type") {
			return "", false
		}
		from, to := "atomic", ""
		if c.old != nil && c.old.ListType != "" {
			from = c.old.ListType
		}
		if c.new != nil {
			to = c.new.ListType
		}
		c.Before, c.After = from, to
		return "list type changed from " + from + " to " + to, true
	},
}
