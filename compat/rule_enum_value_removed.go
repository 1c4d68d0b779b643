package compat

import "sluice.dev/report"

// enumValueRemoved names the values that are gone. If the list is the same and something around it changed, for
// instance the type, it says only that fewer values are accepted.
var enumValueRemoved = Rule{
	ID:     "enum-value-removed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A value was removed from an enum",
	Why: `Stored objects may hold the value. Ratcheting tolerates the value only while it stays unchanged. Without ratcheting, the ` +
		`API server refuses every update of the object. Manifests with the value can no longer be applied.`,
	Help: `Keep the value in the enum, and let the controller treat it as its replacement. To refuse it in new objects, add a validation rule ` +
		`that accepts a stored value as long as it stays unchanged. The check then reports writers-refused for new values; suppress that ` +
		`finding when the writers are ready. Remove the value when no stored object holds it.`,
	Unsafe: Example{
		Old: oneField("mode", "type: string", "enum: [fast, slow, legacy]"),
		New: oneField("mode", "type: string", "enum: [fast, slow]"),
	},
	Instead: oneField("mode", "type: string",
		"enum: [fast, slow, legacy]", toleratingRule(`self != "legacy"`, "mode legacy is deprecated; use slow")),
	claim: func(c *change) (string, bool) {
		if !c.isRefusedBy("enum") || c.Before == nil {
			return "", false
		}
		before, _ := c.Before.([]any)
		after, _ := c.After.([]any)
		gone := valuesMissingFrom(before, after)
		if len(gone) == 0 {
			return "the enum accepts fewer values than before", true
		}
		return pluralNoun(len(gone), "value") + " " + listValues(gone) + " removed from the enum", true
	},
}
