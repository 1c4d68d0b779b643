package compat

import (
	"context"

	"sluice.dev/report"
)

var scaleSubresourceRemoved = Rule{
	ID:    "scale-subresource-removed",
	Level: report.ClientsBroken,
	Title: "The scale subresource is gone",
	Why: `kubectl scale, the HorizontalPodAutoscaler and PodDisruptionBudgets use the path /scale and get 404 from now on: nothing is scaled any ` +
		`more, and disruption budgets no longer know how many replicas there should be.`,
	Help: `Keep subresources.scale.`,
	Unsafe: Example{Old: `
versions:
- name: v1
  served: true
  storage: true
  subresources:
    scale:
      specReplicasPath: .spec.replicas
      statusReplicasPath: .status.replicas
`, New: `
versions:
- name: v1
  served: true
  storage: true
`},
	Safe: Example{Old: `
versions:
- name: v1
  served: true
  storage: true
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            replicas:
              type: integer
              minimum: 0
              maximum: 100
`, New: `
versions:
- name: v1
  served: true
  storage: true
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            replicas:
              type: integer
              minimum: 0
              maximum: 100
  subresources:
    scale:
      specReplicasPath: .spec.replicas
      statusReplicasPath: .status.replicas
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		for _, p := range c.servedPairs() {
			if p.from.Subresources != nil && p.from.Subresources.Scale != nil && (p.to.Subresources == nil || p.to.Subresources.Scale == nil) {
				out = append(out, report.Finding{
					Version: p.to.Name, Message: "the scale subresource is gone: requests to /scale are answered with 404",
					SchemaPath: p.from.tokens("subresources", "scale"), InOld: true,
				})
			}
		}
		return out
	},
}
