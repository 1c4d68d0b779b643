package compat

import "sluice.dev/report"

var typeNarrowed = Rule{
	ID:     "type-narrowed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "The new type takes only a part of what the old one took",
	Why: `From number to integer, or from int-or-string to one of the two: some values of stored objects are no longer of the type, and are refused ` +
		`when they are changed, or when anything is where updates are not ratcheted.`,
	Help: `Keep the wider type and refuse new values of the other kind with a validation rule that lets old ones be: ` +
		`"oldSelf.hasValue() && self == oldSelf.value() || type(self) == int" with optionalOldSelf: true.`,
	Unsafe: Example{
		Old: `
ratio:
  type: number
`, New: `
ratio:
  type: integer
`,
	},
	Safe: Example{Old: `
ratio:
  type: integer
`, New: `
ratio:
  type: number
`},
	claim: func(c *change) (string, bool) {
		if !c.is("type") {
			return "", false
		}
		from, to := c.types()
		narrowed := from == "number" && to == "integer" || from == "int-or-string" && (to == "integer" || to == "string")
		return "type narrowed from " + from + " to " + to, narrowed
	},
}
