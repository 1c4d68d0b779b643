package compat

import (
	"context"

	"sluice.dev/report"
)

var scopeChanged = Rule{
	ID:    "scope-changed",
	Level: report.ClientsBroken,
	Title: "The scope changed",
	Why: `Objects in a namespace and objects of the whole cluster are stored under different keys and have different URLs. Existing objects ` +
		`would be out of reach, so the API server refuses the change for a CRD that is in use.`,
	Help: `Keep the scope. To change it, add a second CRD with another name and migrate the objects.`,
	Unsafe: Example{Old: `
scope: Namespaced
`, New: `
scope: Cluster
`},
	Safe: Example{Old: `
scope: Namespaced
`, New: `
scope: Namespaced
names:
  kind: Widget
  plural: widgets
  shortNames: [wd]
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if !c.both() {
			return nil
		}
		return c.renamed("scope", string(c.old.Spec.Scope), string(c.new.Spec.Scope), "spec", "scope")
	},
}
