package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var nullableRemoved = Rule{
	ID:     "nullable-removed",
	Level:  report.DataLost,
	Varies: true,
	Title:  "null is no longer allowed",
	Why: `A stored null is a value: it can mean "none" where leaving the field out means "the default". Without nullable the API server drops a null ` +
		`from an object, fills in the default where there is one, and refuses it as an item of a list.`,
	Help: `Keep nullable: true. It costs nothing but a case in the code that reads the field.`,
	Unsafe: Example{
		Old: `
limit:
  type: integer
  nullable: true
`, New: `
limit:
  type: integer
`,
	},
	Safe: Example{Old: `
limit:
  type: integer
`, New: `
limit:
  type: integer
  description: How many there may be.
`},
	claim: func(c *change) (string, bool) {
		items := c.is("type") && c.old != nil && c.new != nil && c.old.Nullable && !c.new.Nullable && typeName(c.old) == typeName(c.new)
		if c.Keyword != "nullable" && !items {
			return "", false
		}
		switch c.Harm {
		case contain.Redefaulted:
			return "null is no longer allowed: it is replaced by the default", true
		case contain.Pruned:
			return "null is no longer allowed: it is dropped", true
		case contain.Refused, contain.RefusedTransition:
		}
		return "null is no longer allowed", true
	},
}
