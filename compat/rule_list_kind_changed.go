package compat

import (
	"context"

	"sluice.dev/report"
)

var listKindChanged = Rule{
	ID:    "list-kind-changed",
	Level: report.ClientsBroken,
	Title: "The kind of lists changed",
	Why: `Typed clients decode the answer to a list request by its kind. Those that were compiled with the old one cannot decode lists any more, and ` +
		`with lists go informers, and so whole controllers. A list kind that is left out is the kind with List after it.`,
	Help: `Keep the list kind.`,
	Unsafe: Example{Old: `
names:
  kind: Widget
  plural: widgets
  listKind: WidgetList
`, New: `
names:
  kind: Widget
  plural: widgets
  listKind: Widgets
`},
	Safe: Example{Old: `
names:
  kind: Widget
  plural: widgets
  listKind: WidgetList
`, New: `
names:
  kind: Widget
  plural: widgets
  listKind: null
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if !c.both() {
			return nil
		}
		return c.renamed("list kind", listKind(&c.old.Spec.Names), listKind(&c.new.Spec.Names), "spec", "names", "listKind")
	},
}
