package compat

import "sluice.dev/report"

var typeChanged = Rule{
	ID:     "type-changed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "The type changed to one that the old values do not have",
	Why: `Every stored object that has the field holds a value of the old type. Each is refused as soon as the field is touched, typed clients fail ` +
		`to decode either the old or the new objects, and server-side apply loses track of who owns what.`,
	Help: `Add a field with a new name and the new type, let the controller read both, and retire the old one. Or make the change in a new version of ` +
		`the API, with a conversion webhook.`,
	Unsafe: Example{
		Old: `
timeout:
  type: integer
`, New: `
timeout:
  type: string
`,
	},
	Safe: Example{Old: `
timeout:
  type: integer
`, New: `
timeout:
  x-kubernetes-int-or-string: true
`},
	claim: func(c *change) (string, bool) {
		from, to := c.types()
		return "type changed from " + from + " to " + to, c.is("type")
	},
}
