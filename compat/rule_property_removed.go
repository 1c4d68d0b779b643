package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// propertyRemoved claims pruned fields that the old schema declared. The prover reports the outermost one, and
// told.hasGap keeps those below it quiet in the other questions.
var propertyRemoved = Rule{
	ID:    "property-removed",
	Level: report.DataLost,
	Title: "A property was removed, so its value is pruned",
	Why: `The API server drops fields that the schema does not declare. If a stored object has the field, the next write of any client ` +
		`removes it. The API server accepts requests with the field and silently drops it. A rollback does not bring the ` +
		`data back.

Properties below a removed property are not reported again.`,
	Help: `Keep the property and say in its description that it is no longer used. To rename a field, add the new one and let the controller ` +
		`copy the value. Remove the old one only in a later API version with conversion, or when no stored object has it any more.`,
	Unsafe: Example{
		Old: exampleFields(exampleField("replicas", "type: integer"), exampleField("legacyMode", "type: string")),
		New: oneField("replicas", "type: integer"),
	},
	Instead: exampleFields(
		exampleField("replicas", "type: integer"),
		exampleField("legacyMode", "type: string", "description: Deprecated. Has no effect; leave it out.")),
	claim: func(c *change) (string, bool) {
		if c.Harm != contain.Pruned || c.Keyword != "properties" || c.lastStep().Kind != contain.Field {
			return "", false
		}
		return "property " + c.lastFieldName() + " is gone, so its value is pruned", true
	},
}
