package compat

import (
	"context"

	"sluice.dev/report"
)

var singularChanged = Rule{
	ID:    "singular-changed",
	Level: report.ClientsBroken,
	Title: "The singular name changed",
	Why: `The singular is what people type after kubectl get, and what scripts and aliases hold. Those that use the old one are told that there is ` +
		`no such resource. A singular that is left out is the kind in lower case.`,
	Help: `Keep the singular, and add the new word as a short name.`,
	Unsafe: Example{Old: `
names:
  kind: Widget
  plural: widgets
  singular: widget
`, New: `
names:
  kind: Widget
  plural: widgets
  singular: widgit
`},
	Safe: Example{Old: `
names:
  kind: Widget
  plural: widgets
  singular: widget
`, New: `
names:
  kind: Widget
  plural: widgets
  singular: null
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if !c.both() {
			return nil
		}
		return c.renamed("singular", singular(&c.old.Spec.Names), singular(&c.new.Spec.Names), "spec", "names", "singular")
	},
}
