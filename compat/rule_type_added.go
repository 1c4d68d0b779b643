package compat

import "sluice.dev/report"

// typeAdded claims values of another type at places that had none. It stands before type-narrowed and type-changed,
// which compare two types.
var typeAdded = Rule{
	ID:     "type-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A field that accepted any value now has a type",
	Why: `Below x-kubernetes-preserve-unknown-fields a field can hold any value. Once the schema declares a type for it, the API server ` +
		`refuses updates of stored objects that hold another value there. The change looks like a new field, so reviewers and tools miss it.`,
	Help: `Declare the field without a type, so that it accepts any value. Search the stored objects before you add a type. If they hold ` +
		`integers and strings only, use x-kubernetes-int-or-string.`,
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
	Instead: `
config:
  type: object
  x-kubernetes-preserve-unknown-fields: true
  properties:
    replicas:
      nullable: true
      x-kubernetes-preserve-unknown-fields: true
`,
	claim: func(c *change) (string, bool) {
		if !c.isRefusedBy("type") || c.Before != nil {
			return "", false
		}
		_, to := c.typeNames()
		return "any value was allowed, and now the type is " + to, true
	},
}
