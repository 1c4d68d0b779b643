package compat

import (
	"context"

	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// conversionWebhookDropped reports the step from Webhook to None. It is one finding for the CRD: what the webhook
// made of objects is not known, so that no single field can be blamed. Its witness, if there is one, is an object
// that the versions of the new CRD prune on their way.
var conversionWebhookDropped = Rule{
	ID:    "conversion-webhook-dropped",
	Level: report.ClientsBroken,
	Title: "The conversion webhook was removed while versions with different schemas remain",
	Why: `Objects are stored in one version and requested in others. Without the webhook the API server changes only apiVersion, and prunes ` +
		`fields that the schema of the other version does not declare. If the webhook renamed a field, the next write drops it.

If all versions have equal schemas, they need no webhook, and nothing is reported.`,
	Help: `Keep the webhook as long as the CRD serves two versions with different schemas. If the CRD serves only one version, keep ` +
		`the webhook as long as objects may be stored in another one.`,
	Unsafe: Example{
		Old: webhookConversion + exampleVersions(
			servedVersion("v1beta1", specSchema(exampleField("colour", "type: string"))),
			storedVersion("v1", specSchema(exampleField("color", "type: string"))),
		),
		New: exampleVersions(
			servedVersion("v1beta1", specSchema(exampleField("colour", "type: string"))),
			storedVersion("v1", specSchema(exampleField("color", "type: string"))),
		),
	},
	Instead: webhookConversion + exampleVersions(
		servedVersion("v1beta1", "deprecated: true", "deprecationWarning: example.com/v1beta1 Widget is deprecated; use example.com/v1",
			specSchema(exampleField("colour", "type: string"))),
		storedVersion("v1", specSchema(exampleField("color", "type: string"))),
	),
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		if !c.hasBothCRDs() || len(c.oldConversions) == 0 || len(c.newConversions) > 0 {
			return nil
		}
		pairs := c.crossPairs()
		// Versions that were alike under the old CRD, and are under the new one, need no conversion: then the
		// webhook was of no use.
		differ := false
		for _, p := range pairs {
			from, to := findVersion(c.oldParts, p.from.Name), findVersion(c.oldParts, p.to.Name)
			differ = differ || !isUnchangedSchema(p.from, p.to) || from != nil && to != nil && !isUnchangedSchema(from, to)
		}
		if !differ {
			return nil
		}
		f := report.Finding{
			Message: "the conversion webhook is gone while versions with different schemas remain", Before: "Webhook", After: "None",
			SchemaPath: []string{"spec", "conversion"}, InOld: true,
		}
		for _, p := range pairs {
			for _, g := range c.decidePair(ctx, pair{c.readBy(p.from, nil), p.to}) {
				if g.Harm == contain.Pruned && g.Verdict == contain.NotContained {
					f.Witness, f.Version = witnessOf(&g), p.to.Name
					f.Witness.AcceptedBy, f.Witness.JudgedBy = p.from.versionPhrase(), p.to.versionPhrase()
					f.Message += ": objects written as " + p.from.Name + " are pruned as " + p.to.Name
					return []report.Finding{f}
				}
			}
		}
		return []report.Finding{f}
	},
}

// crossPairs are the ways that an object can go from one version of the new CRD to another: it is written in a version
// that is served, or has been stored in one, and is then stored in the storage version; from there it is read in any that
// is served.
func (c *comparison) crossPairs() []pair {
	store := storageVersionOf(c.newParts)
	if store == nil {
		return nil
	}
	var out []pair
	for _, p := range c.newParts {
		if p == store {
			continue
		}
		if p.Served || c.isStored(p.Name) {
			out = append(out, pair{p, store})
		}
		if p.Served {
			out = append(out, pair{store, p})
		}
	}
	return out
}
