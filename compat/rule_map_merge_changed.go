package compat

import (
	"context"

	"sluice.dev/report"
)

var mapMergeChanged = Rule{
	ID:    "map-merge-changed",
	Level: report.Cosmetic,
	Title: "An object that was merged field by field is now replaced as a whole",
	Why: `With x-kubernetes-map-type: atomic, server-side apply knows one owner for the whole object or map. Where two appliers each own some of its ` +
		`fields, the next one to apply now replaces what the other one wrote, or gets a conflict.

Nothing that is stored is refused or lost by itself. granular is the default, so that saying it changes nothing.`,
	Help: `Leave the map granular where several appliers write to it.`,
	Unsafe: Example{Old: `
selector:
  type: object
  additionalProperties:
    type: string
`, New: `
selector:
  type: object
  x-kubernetes-map-type: atomic
  additionalProperties:
    type: string
`},
	Safe: Example{Old: `
selector:
  type: object
  additionalProperties:
    type: string
`, New: `
selector:
  type: object
  x-kubernetes-map-type: granular
  additionalProperties:
    type: string
`},
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
