package compat

import "sluice.dev/report"

// servedVersionRemoved is about clients. What becomes of objects that are stored in the version is for
// stored-version-removed; both may report one version.
var servedVersionRemoved = Rule{
	ID:    "served-version-removed",
	Level: report.ClientsBroken,
	Title: "A served version was removed",
	Why: `Clients name the version in every request, and manifests name it in apiVersion. The API server answers clients of the ` +
		`removed version that the kind does not exist. GitOps tools and Helm releases with such manifests fail too.`,
	Help: `Take three releases. First serve the new version next to the old one, and mark the old one as deprecated with a warning. In a later ` +
		`release stop serving the old one (served: false). Remove it last.`,
	Unsafe: Example{Old: exampleVersions(
		servedVersion("v1alpha1"),
		storedVersion("v1"),
	), New: exampleVersions(storedVersion("v1"))},
	Instead: exampleVersions(
		servedVersion("v1alpha1", "deprecated: true", "deprecationWarning: example.com/v1alpha1 Widget is deprecated; use example.com/v1"),
		storedVersion("v1"),
	),
	whole: ofBothCRDs(func(c *comparison) []report.Finding {
		var out []report.Finding
		for _, p := range servedVersionsOf(c.oldParts) {
			if findVersion(c.newParts, p.Name) == nil {
				out = append(out, report.Finding{
					Version: p.Name, Message: "version " + p.Name + " was served and is gone", Before: p.Name, SchemaPath: p.documentTokens("name"), InOld: true,
				})
			}
		}
		return out
	}),
}
