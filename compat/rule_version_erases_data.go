package compat

import (
	"context"
	"strings"

	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// versionErasesData tells the crossings in which something of an object is dropped, and stays dropped once the client
// of that version writes the object back. The journey of each witness was made by the API server's code.
var versionErasesData = Rule{
	ID:    "version-erases-data",
	Level: report.DataLost,
	Title: "Clients of one version erase what another version stored, and nothing converts between them",
	Why: `Under the conversion strategy None the API server prunes an object by the schema of the version in which a client reads it. ` +
		`If a version lacks a field, its clients never see the field, and their next write of the object erases it, even if they only ` +
		`set a label. kubectl uses the version with the highest priority. If the CRD adds a version with the highest priority, ` +
		`kubectl label alone erases the fields.

The rule looks at the objects that the old CRD can hold, written in any of its versions, and at every version that the new CRD ` +
		`serves. It does not report data that versions of the old CRD already erased. Nor does it report a field that the new CRD ` +
		`adds to one version only: added-in-one-version warns about that.`,
	Help: `Declare in this version the fields that the other versions declare, or set x-kubernetes-preserve-unknown-fields there. Otherwise ` +
		`convert with a webhook, or do not serve the version.`,
	Unsafe: Example{
		Old: exampleVersions(
			storedVersion("v1alpha1", specSchema(exampleField("size", "type: integer"), exampleField("color", "type: string"))),
		),
		New: exampleVersions(
			storedVersion("v1alpha1", specSchema(exampleField("size", "type: integer"), exampleField("color", "type: string"))),
			servedVersion("v1beta1", specSchema(exampleField("size", "type: integer"))),
		),
	},
	Instead: exampleVersions(
		storedVersion("v1alpha1", specSchema(exampleField("size", "type: integer"), exampleField("color", "type: string"))),
		servedVersion("v1beta1", specSchema(exampleField("size", "type: integer"), exampleField("color", "type: string"))),
	),
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		for _, x := range c.reachableCrossings(ctx).erased {
			f := c.findingOfCrossing(x)
			f.Message = "clients of " + x.to.Name + " erase " + x.lostFields(f) + ", which was stored by clients of " + x.from.Name
			if x.from == storageVersionOf(c.oldParts) {
				f.Message = "clients of " + x.to.Name + " erase " + x.lostFields(f) + ", which is stored as " + x.from.Name
			}
			if !x.to.Served && !x.to.Storage {
				f.Message = "reading what is stored as " + x.to.Name + " now drops " + x.lostFields(f) + ", which was stored by clients of " + x.from.Name
			} else if x.anew {
				f.Message = "each write of objects of " + x.from.Name + " now stores them without " + x.lostFields(f) + ", which the storage version " + x.to.Name + " does not keep"
			} else if before := preferredVersionOf(c.oldParts); x.to == preferredVersionOf(c.newParts) && (before == nil || before.Name != x.to.Name) {
				f.Message += "; kubectl now uses " + x.to.Name
			}
			if x.Verdict == contain.Unknown {
				f.Outcome, f.Message = report.Undecided, Undetermined+": "+f.Message
			} else {
				f.Level = report.DataLost
			}
			out = append(out, f)
		}
		return out
	},
}

// lostFields names what a version drops, given the finding about it.
func (x *crossing) lostFields(f report.Finding) string {
	at := strings.TrimPrefix(f.Path, ".")
	switch {
	case x.Keyword == "nullable":
		return "null at " + at
	case newChange(x.pair, x.Gap).losesKeys():
		return strings.TrimSuffix("unknown fields of "+at, " of ")
	}
	return at
}

// findingOfCrossing makes a finding of a crossing. It stands in the version in which the object is read.
func (c *comparison) findingOfCrossing(x crossing) report.Finding {
	ch := newChange(x.pair, x.Gap)
	f := c.findingOf(ch)
	f.Rule = ""
	path := x.Path
	if ch.losesKeys() {
		path = path[:len(path)-1]
	}
	if f.InOld || x.Harm == contain.Pruned {
		f.SchemaPath, f.InOld = x.to.schemaTokens(path), false
	}
	if f.Witness != nil {
		f.Witness.AcceptedBy, f.Witness.JudgedBy = x.from.versionPhrase(), x.to.versionPhrase()
		if was := findVersion(c.oldParts, x.to.Name); x.Witness.Old != nil && was != nil && was.Served { // see refusedAt
			f.Witness.AcceptedBy = was.versionPhrase()
		}
	}
	return f
}

// versionPhrase names the version and the CRD that it is of.
func (p *part) versionPhrase() string {
	if p.isOld {
		return "version " + p.Name + " of the old CRD"
	}
	return "version " + p.Name + " of the new CRD"
}
