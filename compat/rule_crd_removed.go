package compat

import (
	"context"

	"sluice.dev/report"
)

var crdRemoved = Rule{
	ID:    "crd-removed",
	Level: report.DataLost,
	Title: "The CRD is gone",
	Why: `When a CustomResourceDefinition is deleted, the API server deletes every object of that kind, in all namespaces, and the API is gone for ` +
		`all clients. Whether leaving it out of a set of manifests deletes it depends on how they are applied: tools that prune do so.`,
	Help: `Keep the CRD as long as objects may exist, with served: false in the versions that nobody should use. Delete it by hand after the objects ` +
		`are migrated. Where it is left out on purpose and nothing prunes it, suppress the finding with that reason.`,
	Unsafe: Example{Old: `
scope: Namespaced
`},
	Safe: Example{New: `
scope: Namespaced
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if c.new != nil {
			return nil
		}
		return []report.Finding{{
			Message:    "the CRD is gone: once it is deleted, so are all objects of kind " + c.old.Spec.Names.Kind,
			SchemaPath: []string{"spec"}, InOld: true,
		}}
	},
}
