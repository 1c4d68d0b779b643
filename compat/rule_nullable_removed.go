package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// nullableRemoved claims nulls that are pruned or replaced (PruneNonNullableNullsWithoutDefaults in
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting). Items of lists are not pruned, so a null there is
// refused for its type; the rule claims that too if the type is as before.
var nullableRemoved = Rule{
	ID:     "nullable-removed",
	Level:  report.DataLost,
	Varies: true,
	Title:  "null is no longer allowed",
	Why: `A stored null is a value: it can mean "none", while a missing field means "the default". Without nullable the API server ` +
		`drops null from an object, or fills in the default if there is one. As an item of a list without a default, null is refused.`,
	Help:    `Keep nullable: true. It costs only one more case in the code that reads the field.`,
	Unsafe:  Example{Old: oneField("limit", "type: integer", "nullable: true"), New: oneField("limit", "type: integer")},
	Instead: oneField("limit", "type: integer", "nullable: true"),
	claim: func(c *change) (string, bool) {
		items := c.isRefusedBy("type") && c.old != nil && c.new != nil && c.old.Nullable && !c.new.Nullable && typeName(c.old) == typeName(c.new)
		if c.Keyword != "nullable" && !items {
			return "", false
		}
		switch {
		case c.Harm != contain.Pruned:
			return "null is no longer allowed", true
		case c.new != nil && c.new.HasDefault:
			return "null is no longer allowed: the default replaces it", true
		}
		return "null is no longer allowed: it is dropped", true
	},
}
