package compat

import (
	"context"

	"sluice.dev/report"
)

// versionUnserved is served-version-removed for a version that stays in the CRD.
var versionUnserved = Rule{
	ID:    "version-unserved",
	Level: report.ClientsBroken,
	Title: "A version is no longer served",
	Why: `The CRD still declares the version, so stored objects stay readable, but the API server answers requests for it with 404. Clients ` +
		`and manifests that name the version fail.`,
	Help: `Mark the version as deprecated first, so that the API server warns its clients. The metric ` +
		`apiserver_requested_deprecated_apis counts requests to deprecated versions. When no client uses the version, stop serving it ` +
		`and suppress the finding with that reason.`,
	Unsafe: Example{Old: exampleVersions(
		servedVersion("v1alpha1"),
		storedVersion("v1"),
	), New: exampleVersions(
		unservedVersion("v1alpha1"),
		storedVersion("v1"),
	)},
	Instead: exampleVersions(
		servedVersion("v1alpha1", "deprecated: true", "deprecationWarning: example.com/v1alpha1 Widget is deprecated; use example.com/v1"),
		storedVersion("v1"),
	),
	whole: func(_ context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		for _, p := range c.pairs {
			if p.from.Served && !p.to.Served {
				out = append(out, report.Finding{
					Version: p.to.Name, Message: "version " + p.to.Name + " is no longer served", Before: "true", After: "false", SchemaPath: p.to.documentTokens("served"),
				})
			}
		}
		return out
	},
}
