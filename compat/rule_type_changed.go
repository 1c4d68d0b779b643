package compat

import "sluice.dev/report"

// typeChanged claims all gaps about types that no rule before it has taken.
var typeChanged = Rule{
	ID:     "type-changed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "The type changed, so old values do not fit",
	Why: `Every stored object with the field holds a value of the old type. The API server refuses the value as soon as an update ` +
		`changes the field. Typed clients fail to decode either the old or the new objects, and server-side apply loses track of ` +
		`field owners.`,
	Help: `Add a field with a new name and the new type, let the controller read both, and retire the old one. Or make the change in a new API ` +
		`version with a conversion webhook.`,
	Unsafe:  Example{Old: oneField("timeout", "type: integer"), New: oneField("timeout", "type: string")},
	Instead: exampleFields(exampleField("timeout", "type: integer"), exampleField("timeoutDuration", "type: string")),
	claim: func(c *change) (string, bool) {
		from, to := c.typeNames()
		return "type changed from " + from + " to " + to, c.isRefusedBy("type")
	},
}
