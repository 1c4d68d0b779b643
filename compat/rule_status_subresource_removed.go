package compat

import (
	"context"

	"sluice.dev/report"
)

var statusSubresourceRemoved = Rule{
	ID:    "status-subresource-removed",
	Level: report.ClientsBroken,
	Title: "The status subresource is gone",
	Why: `Controllers write .status through the path /status. Without the subresource those requests are answered with 404, so that no status is ` +
		`written any more; and whoever may write the object may write its status too. metadata.generation then counts status changes as well, which ` +
		`makes controllers that watch it loop.`,
	Help: `Keep subresources.status.`,
	Unsafe: Example{Old: `
versions:
- name: v1
  served: true
  storage: true
  subresources:
    status: {}
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
  subresources:
    status: {}
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
    status: {}
    scale:
      specReplicasPath: .spec.replicas
      statusReplicasPath: .status.replicas
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		for _, p := range c.servedPairs() {
			if hasStatus(p.from) && !hasStatus(p.to) {
				out = append(out, report.Finding{
					Version: p.to.Name, Path: ".status", Message: "the status subresource is gone: requests to /status are answered with 404",
					SchemaPath: p.from.tokens("subresources", "status"), InOld: true,
				})
			}
		}
		return out
	},
}

// servedPairs are the versions that were served and still are.
func (c *comparison) servedPairs() []pair {
	var out []pair
	for _, p := range c.pairs {
		if p.from.Served && p.to.Served {
			out = append(out, p)
		}
	}
	return out
}

func hasStatus(p *part) bool { return p.Subresources != nil && p.Subresources.Status != nil }
