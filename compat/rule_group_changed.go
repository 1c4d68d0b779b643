package compat

import (
	"context"

	"sluice.dev/report"
)

var groupChanged = Rule{
	ID:    "group-changed",
	Level: report.ClientsBroken,
	Title: "The API group changed",
	Why: `The group is part of every object's apiVersion, of every URL and of every RBAC rule. A CRD of the same name with another group is ` +
		`refused by the API server, because the name has to be plural.group; under a new name it is a new API without any of the old objects.`,
	Help: `Keep the group. To move to another one, add a second CRD, let a controller copy the objects, and remove the old CRD when nobody uses it.`,
	Unsafe: Example{Old: `
group: example.com
`, New: `
group: example.org
`},
	Safe: Example{Old: `
group: example.com
`, New: `
group: example.com
names:
  kind: Widget
  plural: widgets
  shortNames: [wd]
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if !c.both() {
			return nil
		}
		return c.renamed("group", c.old.Spec.Group, c.new.Spec.Group, "spec", "group")
	},
}
