package compat

import "sluice.dev/report"

// scaleSubresourceRemoved looks at each version by itself: /scale is a path below a version.
var scaleSubresourceRemoved = Rule{
	ID:    "scale-subresource-removed",
	Level: report.ClientsBroken,
	Title: "The scale subresource was removed",
	Why: `kubectl scale, the HorizontalPodAutoscaler and PodDisruptionBudgets use the path /scale. Now they get 404: nothing scales the ` +
		`objects any more, and disruption budgets no longer know the expected number of replicas.`,
	Help: `Keep subresources.scale.`,
	Unsafe: Example{Old: exampleVersions(
		storedVersion("v1", scaleSubresource(".spec.replicas")),
	), New: exampleVersions(storedVersion("v1"))},
	Instead: exampleVersions(
		storedVersion("v1", scaleSubresource(".spec.replicas")),
	),
	whole: inServedVersions(func(p pair) (out []report.Finding) {
		if scaleOf(p.from) != nil && scaleOf(p.to) == nil {
			out = append(out, report.Finding{
				Version: p.to.Name, Message: "the scale subresource is gone: requests to /scale are answered with 404",
				SchemaPath: p.from.documentTokens("subresources", "scale"), InOld: true,
			})
		}
		return out
	}),
}
