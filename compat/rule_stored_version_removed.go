package compat

import (
	"context"

	"sluice.dev/report"
)

var storedVersionRemoved = Rule{
	ID:    "stored-version-removed",
	Level: report.DataLost,
	Title: "A version is gone in which objects may be stored",
	Why: `Objects stay stored in the version that was the storage version when they were last written. Without that version they cannot be read ` +
		`any more. The API server refuses to drop a version that status.storedVersions names, and then the finding is at the level ` +
		`refused-by-api-server.

A manifest carries no status: a version with storage: true in the old one counts as stored. Against a cluster status.storedVersions counts.`,
	Help: `Keep the version, with served: false if nobody should use it. Once another version is the storage version, rewrite all objects (a ` +
		`storage migration), take the old version out of status.storedVersions, and only then out of the CRD. Where that has been done, compare with the ` +
		`cluster, or suppress the finding with that reason.`,
	Unsafe: Example{Old: `
versions:
- name: v1beta1
  served: true
  storage: true
- name: v1
  served: true
  storage: false
`, New: `
versions:
- name: v1
  served: true
  storage: true
`},
	Safe: Example{Old: `
versions:
- name: v1beta1
  served: true
  storage: true
- name: v1
  served: true
  storage: false
`, New: `
versions:
- name: v1beta1
  served: true
  storage: false
- name: v1
  served: true
  storage: true
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if !c.both() {
			return nil
		}
		var out []report.Finding
		for _, name := range c.storedVersions() {
			if find(c.newParts, name) != nil {
				continue
			}
			f := report.Finding{
				Version: name, Message: "version " + name + " is gone, and objects may be stored in it", Before: name, SchemaPath: []string{"spec", "versions"},
			}
			if p := find(c.oldParts, name); p != nil {
				f.SchemaPath, f.InOld = p.tokens("name"), true
			}
			if words := c.refused("status.storedVersions"); words != "" {
				f.Level = report.RefusedByAPIServer
				f.Message += "; the API server refuses this: " + words
			}
			out = append(out, f)
		}
		return out
	},
}
