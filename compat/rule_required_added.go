package compat

import "sluice.dev/report"

// requiredAdded claims objects that lack a field. The path of the finding is that of the field, though the gap is at
// the object around it. A default makes the gap go away, and so does a default in a parent that has the field.
var requiredAdded = Rule{
	ID:     "required-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A property became required",
	Why: `The API server refuses stored objects that lack the property. If an update leaves the surrounding object alone, ratcheting ` +
		`lets it pass, but every change inside that object is refused. Manifests without the property are refused too. A property ` +
		`that is new and required at the same time breaks every existing object.

A required property with a default does no harm: the API server fills in the default before it validates.`,
	Help: `Give the property a default. If no default fits, leave the property optional in the schema, and let the controller report a missing ` +
		`value in a condition.`,
	Unsafe: Example{
		Old: oneField("backup", "type: object", exampleField("properties", exampleField("bucket", "type: string"))),
		New: oneField("backup", "type: object", "required: [bucket]", exampleField("properties", exampleField("bucket", "type: string"))),
	},
	Instead: oneField("backup", "type: object", "required: [bucket]",
		exampleField("properties", exampleField("bucket", "type: string", "default: main"))),
	claim: func(c *change) (string, bool) {
		if !c.isRefusedBy("required") {
			return "", false
		}
		if c.old.Property(c.Detail) == nil && c.new.Property(c.Detail) != nil {
			return "new property " + compactJSON(c.Detail) + " is required", true
		}
		return "property " + compactJSON(c.Detail) + " became required", true
	},
}
