package compat

import "sluice.dev/report"

// typeNarrowed claims the pairs of types of which the new one accepts some values of the old one.
var typeNarrowed = Rule{
	ID:     "type-narrowed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "The new type accepts only some of the old values",
	Why: `The type changes from number to integer, or from int-or-string to one of the two. Some values of stored objects do not have the new ` +
		`type. The API server refuses updates that change such a value. If updates are not ratcheted, it refuses every update.`,
	Help: `Keep the wider type, and refuse new values with a validation rule that accepts a stored value as long as it stays unchanged. No ` +
		`stored object is harmed then. The check still reports writers-refused for new values; suppress that finding when the writers are ` +
		`ready.`,
	Unsafe:  Example{Old: oneField("ratio", "type: number"), New: oneField("ratio", "type: integer")},
	Instead: oneField("ratio", "type: number", toleratingRule("double(int(self)) == self", "ratio has to be a whole number")),
	claim: func(c *change) (string, bool) {
		if !c.isRefusedBy("type") {
			return "", false
		}
		from, to := c.typeNames()
		narrowed := from == "number" && to == "integer" || from == "int-or-string" && (to == "integer" || to == "string")
		return "type narrowed from " + from + " to " + to, narrowed
	},
}
