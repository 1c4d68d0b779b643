package compat

import (
	"context"

	"sluice.dev/report"
)

var kindChanged = Rule{
	ID:    "kind-changed",
	Level: report.ClientsBroken,
	Title: "The kind changed",
	Why: `Every stored object and every manifest names its kind. Objects of the old kind would no longer be understood, so the API server refuses ` +
		`the change for a CRD that is in use.`,
	Help: `Keep the kind. For a new name add a second CRD and migrate the objects.`,
	Unsafe: Example{Old: `
names:
  kind: Widget
  plural: widgets
`, New: `
names:
  kind: Gadget
  plural: widgets
`},
	Safe: Example{Old: `
names:
  kind: Widget
  plural: widgets
`, New: `
names:
  kind: Widget
  plural: widgets
  categories: [all]
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if !c.both() {
			return nil
		}
		return c.renamed("kind", c.old.Spec.Names.Kind, c.new.Spec.Names.Kind, "spec", "names", "kind")
	},
}
