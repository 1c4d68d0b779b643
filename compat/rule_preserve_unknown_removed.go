package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// preserveUnknownRemoved claims pruned keys at places that kept unknown fields. It is the first of the rules about
// pruning; the declared fields are for property-removed.
var preserveUnknownRemoved = Rule{
	ID:    "preserve-unknown-removed",
	Level: report.DataLost,
	Title: "Unknown fields are no longer kept",
	Why: `With x-kubernetes-preserve-unknown-fields an object keeps every field, declared or not. Without it, the API server drops undeclared ` +
		`fields when it reads an object. The next write removes them for good, even if a controller writes something else.`,
	Help: `Keep x-kubernetes-preserve-unknown-fields, and declare the fields that you know without a type. Remove it only when the schema declares ` +
		`every field that stored objects hold.`,
	Unsafe: Example{
		Old: `
config:
  type: object
  x-kubernetes-preserve-unknown-fields: true
`, New: `
config:
  type: object
  properties:
    level:
      type: string
`,
	},
	Instead: `
config:
  type: object
  x-kubernetes-preserve-unknown-fields: true
  properties:
    level:
      description: A string.
      nullable: true
      x-kubernetes-preserve-unknown-fields: true
`,
	claim: func(c *change) (string, bool) {
		if c.Harm != contain.Pruned || c.Keyword == "nullable" {
			return "", false
		}
		if c.lastStep().Kind == contain.Field && c.old != nil {
			return "", false
		}
		if c.oldParent != nil && !c.oldParent.PreserveUnknown {
			return "", false
		}
		return "unknown fields are no longer kept", true
	},
}
