package compat

import (
	"context"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
)

// oldCRDInvalid quotes the first of the errors that the validation finds in the old CRD. An old CRD from a cluster
// may be in this state: the API server does not validate again what it has stored.
var oldCRDInvalid = Rule{
	ID:    "old-crd-invalid",
	Title: "The old CRD would be refused by today's API server",
	Why: `The API server version that Sluice is built with does not accept the old CRD. Perhaps an older version accepted it, or ` +
		`nobody ever installed it. Sluice compares the two CRDs as far as possible, but the meaning of the old one is uncertain: for ` +
		`example, some versions fill in an invalid default and others do not.

This is a note: it never fails a check.`,
	Help: `You need not do anything. If the old file is not the installed CRD, compare with the cluster instead.`,
	Unsafe: Example{
		Old: exampleVersions(storedVersion("v1", specSchema(exampleField("replicas", "type: integer", "default: many")))),
		New: exampleVersions(storedVersion("v1", specSchema(exampleField("replicas", "type: integer")))),
	},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		errs := c.refusal().old
		if len(errs) == 0 {
			return nil
		}
		f := report.Finding{
			Outcome: report.Note, InOld: true,
			Message: "this Kubernetes version refuses the old CRD itself: " + brief.Clip(errs[0].Error(), maxEffect),
		}
		if len(errs) > 1 {
			f.Message += " (and " + indexToken(len(errs)-1) + " more)"
		}
		f.SchemaPath, f.Version, f.Path = locateInDocument(errs[0].Field, c.oldParts)
		return []report.Finding{f}
	},
}
