package compat

import (
	"context"

	"sluice.dev/report"
)

var pluralChanged = Rule{
	ID:    "plural-changed",
	Level: report.ClientsBroken,
	Title: "The plural name changed",
	Why:   `The plural is what stands in URLs and in RBAC rules, and it is part of the CRD's own name. The API server never lets it change.`,
	Help:  `Keep the plural. For a new name add a second CRD and migrate the objects.`,
	Unsafe: Example{Old: `
names:
  kind: Widget
  plural: widgets
`, New: `
names:
  kind: Widget
  plural: widgetz
`},
	Safe: Example{Old: `
names:
  kind: Widget
  plural: widgets
`, New: `
names:
  kind: Widget
  plural: widgets
  shortNames: [wd]
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if !c.both() {
			return nil
		}
		return c.renamed("plural", c.old.Spec.Names.Plural, c.new.Spec.Names.Plural, "spec", "names", "plural")
	},
}
