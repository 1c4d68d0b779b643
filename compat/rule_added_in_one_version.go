package compat

import (
	"context"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// addedInOneVersion tells the crossings that no object of the old CRD meets. It is the warning beside
// version-erases-data and versions-contradict: both fail, because they are about objects that may be stored already.
var addedInOneVersion = Rule{
	ID:    "added-in-one-version",
	Level: report.ReadersSurprised,
	Title: "One version now accepts a value that another served version cannot write back",
	Why: `The new CRD adds something to one version only: a field, an enum value, a wider type, a longer list, or a field that ` +
		`becomes optional. Objects that use the addition are served through the other versions too. Under the conversion strategy ` +
		`None, a client of another version may not see the new field, and erases it with its next write. Or the client reads a value ` +
		`that it cannot write back. If the storage version lacks the field, the API server never stores it.

No existing object is harmed, so the finding is a warning. Before you use the addition, check who uses the other versions. If objects ` +
		`of the old CRD are harmed, version-erases-data or versions-contradict reports it, and the check fails.`,
	Help: `Make the addition in all served versions and in the storage version. Otherwise convert with a webhook, or use the addition only when ` +
		`the other versions are no longer served.`,
	Unsafe: Example{
		Old: exampleVersions(
			servedVersion("v1beta1", specSchema(exampleField("size", "type: integer"))),
			storedVersion("v1", specSchema(exampleField("size", "type: integer"))),
		),
		New: exampleVersions(
			servedVersion("v1beta1", specSchema(exampleField("size", "type: integer"))),
			storedVersion("v1", specSchema(exampleField("size", "type: integer"), exampleField("color", "type: string"))),
		),
	},
	Instead: exampleVersions(
		servedVersion("v1beta1", specSchema(exampleField("size", "type: integer"), exampleField("color", "type: string"))),
		storedVersion("v1", specSchema(exampleField("size", "type: integer"), exampleField("color", "type: string"))),
	),
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		for _, x := range c.reachableCrossings(ctx).onesided {
			f := c.findingOfCrossing(x)
			f.Level, f.Severity = report.ReadersSurprised, ""
			switch {
			case x.Harm == contain.Pruned && x.to.Storage:
				f.Message = "objects written as " + x.from.Name + " are stored without " + x.lostFields(f) + ", which the storage version " + x.to.Name + " does not keep"
			case x.Harm == contain.Pruned:
				f.Message = "clients of " + x.to.Name + " erase " + x.lostFields(f) + ", which now only " + x.from.Name + " keeps"
			default:
				f.Message = x.from.Name + " now accepts objects that do not fit " + x.to.Name + ": " + brief.Clip(effectOnWitness(&x.Gap), maxInline)
			}
			out = append(out, f)
		}
		return out
	},
}
