package compat

import (
	"context"

	"sluice.dev/report"
)

var shortNameRemoved = Rule{
	ID:    "short-name-removed",
	Level: report.Cosmetic,
	Title: "A short name is gone",
	Why:   `People and scripts type short names: kubectl get with the one that is gone says that there is no such resource. Programs do not use them.`,
	Help:  `Keep the short name; there may be several.`,
	Unsafe: Example{Old: `
names:
  kind: Widget
  plural: widgets
  shortNames: [wd, wdg]
`, New: `
names:
  kind: Widget
  plural: widgets
  shortNames: [wd]
`},
	Safe: Example{Old: `
names:
  kind: Widget
  plural: widgets
  shortNames: [wd]
`, New: `
names:
  kind: Widget
  plural: widgets
  shortNames: [wdg, wd]
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if !c.both() {
			return nil
		}
		return gone(c.old.Spec.Names.ShortNames, c.new.Spec.Names.ShortNames, func(name string) report.Finding {
			return report.Finding{
				Message: "short name " + quote(name) + " is gone", Before: name, SchemaPath: []string{"spec", "names", "shortNames"}, InOld: true,
			}
		})
	},
}
