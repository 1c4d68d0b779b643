package compat

import (
	"context"

	"sluice.dev/report"
)

// deprecationWithoutWarning looks at the new CRD alone, but leaves out what the old CRD had in the same way. Without
// a text the API server writes its own one into the Warning header (k8s.io/apiextensions-apiserver/pkg/apiserver,
// customresource_handler.go).
var deprecationWithoutWarning = Rule{
	ID:    "deprecation-without-warning",
	Level: report.Cosmetic,
	Title: "A version was deprecated without a warning text",
	Why: `The API server adds a warning to every answer in a deprecated version. Without deprecationWarning the warning only says that the ` +
		`version is deprecated. It does not name the version to use instead, or the release that ends this one.`,
	Help: `Set deprecationWarning: name the version to use, and the release that stops serving this one.`,
	Unsafe: Example{Old: exampleVersions(
		servedVersion("v1beta1"),
		storedVersion("v1"),
	), New: exampleVersions(
		servedVersion("v1beta1", "deprecated: true"),
		storedVersion("v1"),
	)},
	Instead: exampleVersions(
		servedVersion("v1beta1", "deprecated: true",
			"deprecationWarning: example.com/v1beta1 Widget is deprecated and goes away with release 3.0; use example.com/v1"),
		storedVersion("v1"),
	),
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if c.old == nil {
			return nil
		}
		var out []report.Finding
		for _, p := range c.newParts {
			if !p.Served || !p.Deprecated || p.DeprecationWarning != nil {
				continue
			}
			if o := findVersion(c.oldParts, p.Name); o != nil && o.Deprecated && o.DeprecationWarning == nil {
				continue
			}
			out = append(out, report.Finding{
				Version: p.Name, Message: "version " + p.Name + " is deprecated without a warning text", SchemaPath: p.documentTokens("deprecated"),
			})
		}
		return out
	},
}
