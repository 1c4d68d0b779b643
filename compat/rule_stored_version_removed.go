package compat

import (
	"slices"

	"sluice.dev/report"
)

// storedVersionRemoved looks at all versions that may hold objects: the old storage version, those of
// status.storedVersions, and those that the caller names. The API server itself only looks at status.storedVersions
// (ValidateCustomResourceDefinitionStoredVersions).
var storedVersionRemoved = Rule{
	ID:    "stored-version-removed",
	Level: report.DataLost,
	Title: "A version was removed in which objects may be stored",
	Why: `An object stays stored in the version that was the storage version when it was last written. Without that version, no ` +
		`client can read the object. The API server refuses to drop a version that status.storedVersions names; the finding then has ` +
		`the level refused-by-api-server.

If you compare with a cluster, the versions in status.storedVersions count as stored. A manifest has no status: there, the version ` +
		`with storage: true in the old CRD counts as stored.`,
	Help: `Keep the version, and make another version the storage version. Then run sluice migrate CRD: it rewrites all objects, and takes the old ` +
		`version out of status.storedVersions. Only then remove the version from the CRD. If you have migrated already, compare with the cluster, or ` +
		`suppress the finding with that reason.`,
	Unsafe: Example{Old: exampleVersions(
		storedVersion("v1beta1"),
		servedVersion("v1"),
	), New: exampleVersions(storedVersion("v1"))},
	Instead: exampleVersions(
		servedVersion("v1beta1"),
		storedVersion("v1"),
	),
	whole: ofBothCRDs(func(c *comparison) []report.Finding {
		var out []report.Finding
		for _, name := range c.storedVersions() {
			if findVersion(c.newParts, name) != nil {
				continue
			}
			f := report.Finding{
				Version: name, Message: "version " + name + " is gone, and objects may be stored in it", Before: name, SchemaPath: []string{"spec", "versions"},
			}
			if p := findVersion(c.oldParts, name); p != nil {
				f.SchemaPath, f.InOld = p.documentTokens("name"), true
			}
			if p := findVersion(c.oldParts, name); slices.Contains(c.old.Status.StoredVersions, name) && (p == nil || !p.Storage) {
				f.Message += "; sluice migrate " + c.old.Name + " rewrites them"
			}
			if words := c.refusalWords("status.storedVersions"); words != "" {
				f.Level = report.RefusedByAPIServer
				f.Message += "; the API server refuses this: " + words
			}
			out = append(out, f)
		}
		return out
	}),
}
