package compat

import "sluice.dev/report"

// OwnersRule is the ID of the rule about versions that managedFields of stored objects may name. A scan of the objects answers it.
const OwnersRule = "owners-in-removed-version"

// OwnersConverted is the After of a finding of [OwnersRule] about a version that stays, and that a new webhook converts.
const OwnersConverted = "Webhook"

// ownersInRemovedVersion gives notes about versions that other rules do not look at: neither served nor stored.
// Whether an object names one of them in its managedFields is for the scan of a cluster, which raises the note to a
// failure with the number of objects.
var ownersInRemovedVersion = Rule{
	ID:    OwnersRule,
	Title: "A version was removed in which the owners of fields may be noted",
	Why: `The API server notes in metadata.managedFields which client owns which fields, in the version that the client used. A server-side ` +
		`apply converts the object to each of these versions. If the CRD no longer has one of them, the API server refuses every server-side apply ` +
		`to the object: "request to convert CR to an invalid group/version". It still does after all objects were ` +
		`rewritten in another version and status.storedVersions was trimmed, because neither changes managedFields. kubectl apply --server-side, Flux and Argo CD fail. After any other ` +
		`update all owners are lost.

A new conversion webhook has to make the same conversions. While it is down, the API server refuses every server-side apply to such an object.

Schemas do not show what the objects have, so this is a note about versions that were neither served nor stored any more. A comparison with a ` +
		`cluster looks at each object, whichever version is removed, and fails with their number.`,
	Help: `Run sluice migrate CRD while the old version is still in the CRD: it rewrites the entries of metadata.managedFields in the storage version. ` +
		`Then compare with the cluster: sluice check NEW. Clients that still apply in the old version note it again, so move them first.`,
	Unsafe: Example{Old: exampleVersions(
		unservedVersion("v1alpha1"),
		storedVersion("v1"),
	), New: exampleVersions(storedVersion("v1"))},
	Instead: exampleVersions(
		unservedVersion("v1alpha1"),
		storedVersion("v1"),
	),
	whole: ofBothCRDs(func(c *comparison) []report.Finding {
		var out []report.Finding
		for _, p := range c.oldParts {
			if p.Served || c.isStored(p.Name) { // other rules fail what becomes of those
				continue
			}
			f := report.Finding{
				Outcome: report.Note, Version: p.Name, Before: p.Name, SchemaPath: p.documentTokens("name"), InOld: true,
				Reason: "only the objects of a cluster show whether any do (sluice check NEW)",
			}
			switch {
			case findVersion(c.newParts, p.Name) == nil:
				f.Message = "version " + p.Name + " is gone; no server-side apply passes for objects whose managedFields still name it"
			case c.webhookNamedAnew():
				f.After = OwnersConverted
				f.Message = "conversion changed from None to Webhook: each server-side apply to objects whose managedFields name version " + p.Name + " now needs the webhook"
			default:
				continue
			}
			out = append(out, f)
		}
		return out
	}),
}
