package compat

import (
	"context"

	"sluice.dev/report"
)

// listMergeChanged compares keywords, not objects: server-side apply (KEP-555) reads them, and validation accepts the
// same lists. For the other direction, duplicates are refused (list-type-changed) and old items may stay
// (removed-items-kept).
var listMergeChanged = Rule{
	ID:    "list-merge-changed",
	Level: report.Cosmetic,
	Title: "Server-side apply now replaces a list as a whole instead of merging its items",
	Why: `x-kubernetes-list-type tells server-side apply how to merge a list. In a set or a map, each item has its own field owner; an atomic ` +
		`list has one owner for all of it. If two appliers each own a part of the list, the next one to apply replaces the other's items, or ` +
		`gets a conflict.

The API server neither refuses nor drops stored data because of it. A list without a list type is atomic, so writing atomic out ` +
		`changes nothing.`,
	Help: `Keep set or map if several appliers write to the list.`,
	Unsafe: Example{
		Old: oneField("ports", "type: array", "x-kubernetes-list-type: set", exampleField("items", "type: integer")),
		New: oneField("ports", "type: array", exampleField("items", "type: integer")),
	},
	Instead: oneField("ports", "type: array", "x-kubernetes-list-type: set", exampleField("items", "type: integer")),
	inSpec:  true,
	whole: func(_ context.Context, c *comparison) []report.Finding {
		return c.mergeChanges("x-kubernetes-list-type", func(t twin) (string, string) {
			from, to := t.old.ListType, t.new.ListType
			if (from == "set" || from == "map") && (to == "" || to == "atomic") {
				return from, "atomic"
			}
			return "", ""
		})
	},
}

// mergeChanges reports the places at which differs returns how values were and are merged.
func (c *comparison) mergeChanges(keyword string, differs func(twin) (from, to string)) []report.Finding {
	var out []report.Finding
	for _, p := range c.servedPairs() {
		if p.from.buildSchema() != nil || p.to.buildSchema() != nil {
			continue
		}
		for t := range differingTwins(p.from.schemaNode(), p.to.schemaNode()) {
			from, to := differs(t)
			if from == "" {
				continue
			}
			out = append(out, report.Finding{
				Version: p.to.Name, Path: t.path.String(), Before: from, After: to, Message: keyword + " changed from " + from + " to " + to,
				SchemaPath: p.to.schemaTokens(t.path, keyword),
			})
		}
	}
	return out
}
