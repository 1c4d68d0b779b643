package compat

import "sluice.dev/report"

// enumAdded claims gaps of an enum where the old schema had none. The one that had another list is for
// enum-value-removed.
var enumAdded = Rule{
	ID:     "enum-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "An enum was added, so other values are refused",
	Why: `Stored objects may hold other values: an empty string, another spelling, a value that a single user needed. The API server ` +
		`refuses an update that changes such a value to another one outside of the list. Without ratcheting, it refuses every update ` +
		`of the object.`,
	Help: `Write the list as a validation rule that accepts a stored value as long as it stays unchanged. No stored object is harmed then. The ` +
		`check still reports writers-refused for new values; suppress that finding when the writers are ready. Or list every value that may ` +
		`be stored, the empty string included.`,
	Unsafe:  Example{Old: oneField("mode", "type: string"), New: oneField("mode", "type: string", "enum: [fast, slow]")},
	Instead: oneField("mode", "type: string", toleratingRule(`self in ["fast", "slow"]`, "mode has to be fast or slow")),
	claim: func(c *change) (string, bool) {
		after, _ := c.After.([]any)
		return "only " + listValues(after) + " are allowed now", c.isRefusedBy("enum") && c.Before == nil
	},
}
