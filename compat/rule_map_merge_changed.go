package compat

import (
	"context"

	"sluice.dev/report"
)

// mapMergeChanged is list-merge-changed for x-kubernetes-map-type. A missing map type is granular.
var mapMergeChanged = Rule{
	ID:    "map-merge-changed",
	Level: report.Cosmetic,
	Title: "Server-side apply now replaces an object as a whole instead of merging its fields",
	Why: `With x-kubernetes-map-type: atomic, server-side apply has one field owner for the whole object or map. If two appliers each own some ` +
		`of its fields, the next one to apply replaces the other's fields, or gets a conflict.

The API server neither refuses nor drops stored data because of it. An object without a map type is granular, so writing granular ` +
		`out changes nothing.`,
	Help: `Leave the map granular if several appliers write to it.`,
	Unsafe: Example{
		Old: oneField("selector", "type: object", exampleField("additionalProperties", "type: string")),
		New: oneField("selector", "type: object", "x-kubernetes-map-type: atomic", exampleField("additionalProperties", "type: string")),
	},
	Instead: oneField("selector", "type: object",
		"x-kubernetes-map-type: granular", exampleField("additionalProperties", "type: string")),
	inSpec: true,
	whole: func(_ context.Context, c *comparison) []report.Finding {
		return c.mergeChanges("x-kubernetes-map-type", func(t twin) (string, string) {
			if t.new.MapType == "atomic" && t.old.MapType != "atomic" {
				return "granular", "atomic"
			}
			return "", ""
		})
	},
}
