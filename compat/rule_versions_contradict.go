package compat

import (
	"context"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// versionsContradict tells the crossings in which an object is refused that another version accepted. No object is
// harmed as long as only its own version writes it, so the level is that of broken clients.
var versionsContradict = Rule{
	ID:    "versions-contradict",
	Level: report.ClientsBroken,
	Title: "A version refuses what another version holds, and nothing converts between them",
	Why: `Under the conversion strategy None the API server serves an object through every version unchanged, with the defaults of ` +
		`the version in which it was written. If another version refuses a value, its clients read an object that they cannot write ` +
		`back. Their updates fail, unless ratcheting tolerates a field that the update leaves unchanged.

The rule looks at the objects that the old CRD can hold, written in any of its versions, and at every version that the new CRD ` +
		`serves. It does not report values that versions of the old CRD already refused. Nor does it report values that only the new ` +
		`CRD can hold, such as a new enum value in one version: added-in-one-version warns about those.`,
	Help: `Make the same change in all versions, or convert with a webhook. In the example, leave out the maximum.`,
	Unsafe: Example{
		Old: exampleVersions(storedVersion("v1beta1", specSchema(exampleField("size", "type: integer")))),
		New: exampleVersions(
			servedVersion("v1beta1", specSchema(exampleField("size", "type: integer"))),
			storedVersion("v1", specSchema(exampleField("size", "type: integer", "maximum: 9"))),
		),
	},
	Instead: exampleVersions(
		servedVersion("v1beta1", specSchema(exampleField("size", "type: integer"))),
		storedVersion("v1", specSchema(exampleField("size", "type: integer"))),
	),
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		for _, x := range c.reachableCrossings(ctx).refused {
			f := c.findingOfCrossing(x)
			if x.Verdict == contain.Unknown {
				f.Outcome, f.Message = report.Undecided, Undetermined+": "+x.describeClash()
				out = append(out, f)
				continue
			}
			f.Level = report.ClientsBroken
			f.Message = x.describeClash() + ": " + brief.Clip(effectOnWitness(&x.Gap), maxInline)
			out = append(out, f)
		}
		return out
	},
}
