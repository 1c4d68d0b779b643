package compat

import "sluice.dev/report"

// listTypeChanged claims duplicates in a list that was no map, or is none now. A missing list type is atomic.
var listTypeChanged = Rule{
	ID:     "list-type-changed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A list became a set or a map",
	Why: `A set must not hold a value twice, and a map must not hold two items with the same keys. The API server refuses stored ` +
		`lists that do. In an update it tolerates duplicates only if the stored list already had them. A set with an object or a list in it is ` +
		`worse: server-side apply finds the items of a set by their values, which have to be scalars. It refuses every apply to such an object.`,
	Help: `Leave the list atomic (the default). Or, for scalars or a map, make sure that no stored list holds duplicates. For example, release a ` +
		`controller that removes them first.`,
	Unsafe: Example{
		Old: oneField("ports", "type: array", exampleField("items", "type: integer")),
		New: oneField("ports", "type: array", "x-kubernetes-list-type: set", exampleField("items", "type: integer")),
	},
	Instead: oneField("ports", "type: array", "x-kubernetes-list-type: atomic", exampleField("items", "type: integer")),
	claim: func(c *change) (string, bool) {
		if !c.isRefusedBy("x-kubernetes-list-type") {
			return "", false
		}
		from, to := "atomic", ""
		if c.old != nil && c.old.ListType != "" {
			from = c.old.ListType
		}
		if c.new != nil {
			to = c.new.ListType
		}
		c.Before, c.After = from, to
		if from == to {
			return "the list is a " + to + " as before, but its items are other ones", true
		}
		return "list type changed from " + from + " to " + to, true
	},
}
