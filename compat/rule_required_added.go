package compat

import "sluice.dev/report"

var requiredAdded = Rule{
	ID:     "required-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A property became required",
	Why: `Stored objects that lack it are refused: where the object around it is left alone, ratcheting lets the update pass, but a change anywhere ` +
		`in that object is refused, and so is every manifest that was good before. A property that is new and required at once breaks every object that exists.

Required together with a default is no harm: the default is filled in before.`,
	Help: `Give the property a default. Where there is none that fits, leave it optional in the schema, and let the controller report what is ` +
		`missing in a condition.`,
	Unsafe: Example{
		Old: `
backup:
  type: object
  properties:
    bucket:
      type: string
`, New: `
backup:
  type: object
  required: [bucket]
  properties:
    bucket:
      type: string
`,
	},
	Safe: Example{Old: `
backup:
  type: object
  properties:
    bucket:
      type: string
`, New: `
backup:
  type: object
  required: [bucket]
  properties:
    bucket:
      type: string
      default: main
`},
	claim: func(c *change) (string, bool) {
		if !c.is("required") {
			return "", false
		}
		if c.old.Property(c.Detail) == nil && c.new.Property(c.Detail) != nil {
			return "new property " + quote(c.Detail) + " is required", true
		}
		return "property " + quote(c.Detail) + " became required", true
	},
}
