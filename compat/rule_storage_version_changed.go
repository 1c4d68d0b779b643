package compat

import (
	"context"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// storageVersionChanged is about objects that are stored already, and what the new storage version does to them when
// it is written for the first time. Objects of other versions are for version-erases-data and versions-contradict,
// which leave out what this rule tells.
var storageVersionChanged = Rule{
	ID:     "storage-version-changed",
	Level:  report.DataLost,
	Varies: true,
	Title:  "Objects do not fit the new storage version, and nothing converts them",
	Why: `Under the conversion strategy None the API server changes only apiVersion between versions, and then prunes by the schema ` +
		`of the target version. Once another version is the storage version, the next write of an object drops every field that the ` +
		`new schema does not declare, even if the client uses the old version. If the old storage version is no longer served, ` +
		`objects that the new version refuses cannot be updated either.

If the schema of the new storage version accepts and keeps everything that the old one does, nothing is reported.`,
	Help: `Declare in the new storage version every field that the old one declares, or set x-kubernetes-preserve-unknown-fields there. ` +
		`Otherwise convert with a webhook, or keep the old storage version.`,
	Unsafe: Example{
		Old: exampleVersions(
			storedVersion("v1beta1", specSchema(exampleField("size", "type: integer"), exampleField("legacy", "type: string"))),
			servedVersion("v1", specSchema(exampleField("size", "type: integer"))),
		),
		New: exampleVersions(
			servedVersion("v1beta1", specSchema(exampleField("size", "type: integer"), exampleField("legacy", "type: string"))),
			storedVersion("v1", specSchema(exampleField("size", "type: integer"))),
		),
	},
	Instead: exampleVersions(
		servedVersion("v1beta1", specSchema(exampleField("size", "type: integer"), exampleField("legacy", "type: string"))),
		storedVersion("v1", specSchema(exampleField("size", "type: integer"), exampleField("legacy", "type: string"))),
	),
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		from, to := storageVersionOf(c.oldParts), storageVersionOf(c.newParts)
		for _, g := range c.storageGaps(ctx) {
			f := c.findingOf(newChange(pair{from, to}, g))
			if f.Witness != nil {
				f.Witness.AcceptedBy, f.Witness.JudgedBy = from.versionPhrase(), to.versionPhrase()
				f.Message = brief.Clip(effectOnWitness(&g), maxInline)
			}
			f.Message = "the storage version changes from " + from.Name + " to " + to.Name + " without conversion: " + f.Message
			out = append(out, f)
		}
		return out
	},
}

// storageGaps are what becomes of objects that were stored in the old storage version once there is another one, and that
// the comparison of the version with itself does not tell. They are looked for once.
func (c *comparison) storageGaps(ctx context.Context) []contain.Gap {
	return c.moved.answerOf(func() []contain.Gap { return c.findStorageGaps(ctx) })
}

// findStorageGaps compares what the old storage version has stored with the new storage version. It is nil if the
// storage version stays, or if a webhook converts.
func (c *comparison) findStorageGaps(ctx context.Context) []contain.Gap {
	from, to := storageVersionOf(c.oldParts), storageVersionOf(c.newParts)
	if from == nil || to == nil || from.Name == to.Name || len(c.newConversions) > 0 {
		return nil
	}
	same := findVersion(c.newParts, from.Name)
	var known told
	if same != nil {
		known = gapKeys(c.decidePair(ctx, pair{from, same}))
	}
	var out []contain.Gap
	for _, g := range c.storedGaps(ctx, from, same, to) {
		// What is only refused is a matter of writing through the new version, for versions-contradict.
		stuck := g.Harm == contain.Refused && (same == nil || !same.Served)
		if (g.Harm == contain.Pruned || stuck) && !known.hasGap(&g) {
			out = append(out, g)
		}
	}
	return out
}
