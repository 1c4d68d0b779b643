package compat

import "sluice.dev/report"

// statusSubresourceRemoved looks at each version by itself: /status is a path below a version.
var statusSubresourceRemoved = Rule{
	ID:    "status-subresource-removed",
	Level: report.ClientsBroken,
	Title: "The status subresource was removed",
	Why: `Controllers write .status through the path /status. Without the subresource the API server answers those requests with 404, ` +
		`and the status is no longer updated. Every client with the right to write the object can then write its status too. Changes ` +
		`of the status also increase metadata.generation, so a controller that reconciles on a new generation triggers itself in a ` +
		`loop.`,
	Help: `Keep subresources.status.`,
	Unsafe: Example{Old: exampleVersions(
		storedVersion("v1", `subresources:
  status: {}`),
	), New: exampleVersions(storedVersion("v1"))},
	Instead: exampleVersions(
		storedVersion("v1", `subresources:
  status: {}`),
	),
	whole: inServedVersions(func(p pair) (out []report.Finding) {
		if hasStatus(p.from) && !hasStatus(p.to) {
			out = append(out, report.Finding{
				Version: p.to.Name, Path: ".status", Message: "the status subresource is gone: requests to /status are answered with 404",
				SchemaPath: p.from.documentTokens("subresources", "status"), InOld: true,
			})
		}
		return out
	}),
}

func hasStatus(p *part) bool { return p.Subresources != nil && p.Subresources.Status != nil }
