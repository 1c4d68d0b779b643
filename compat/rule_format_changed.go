package compat

import "sluice.dev/report"

// formatChanged takes the old format from the schema. The prover does not know it if the API server does not check
// it.
var formatChanged = Rule{
	ID:     "format-changed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "The format changed, so old values may not fit",
	Why: `Stored values have the old format. If the API server checks the new format, ratcheting tolerates a value without it only ` +
		`while the value stays unchanged. From ipv4 to ipv6 no value fits any more; from int64 to int32 large numbers do not.`,
	Help: `Keep the format, or remove it. For another kind of value, add another field.`,
	Unsafe: Example{
		Old: oneField("size", "type: integer", "format: int64"),
		New: oneField("size", "type: integer", "format: int32"),
	},
	Instead: oneField("size", "type: integer", "format: int64"),
	claim: func(c *change) (string, bool) {
		if !c.isRefusedBy("format") || c.old == nil {
			return "", false
		}
		c.Before = c.old.Format // the prover leaves out formats that are not checked
		return "format changed from " + inlineJSON(c.Before) + " to " + inlineJSON(c.After), true
	},
}
