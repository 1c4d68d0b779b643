package compat

import (
	"context"

	"sluice.dev/report"
)

var statusSubresourceAdded = Rule{
	ID:    "status-subresource-added",
	Level: report.ClientsBroken,
	Title: "A status subresource was added to an object with a status",
	Why: `With the subresource, .status in ordinary requests is silently ignored: a controller that writes its status with an ordinary update ` +
		`believes to have written it, and a status in a manifest is dropped. It has to write to /status, and needs the right to do so. The rule speaks only ` +
		`of versions whose objects could have a status before: the old schema declares one, or keeps unknown fields.`,
	Help: `Release a controller that writes to /status, with RBAC for it, before or together with the CRD; then suppress the finding with that reason.`,
	Unsafe: Example{Old: `
versions:
- name: v1
  served: true
  storage: true
  schema:
    openAPIV3Schema:
      type: object
      properties:
        status:
          type: object
          properties:
            phase:
              type: string
`, New: `
versions:
- name: v1
  served: true
  storage: true
  schema:
    openAPIV3Schema:
      type: object
      properties:
        status:
          type: object
          properties:
            phase:
              type: string
  subresources:
    status: {}
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
        status:
          type: object
          properties:
            phase:
              type: string
  subresources:
    status: {}
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		for _, p := range c.servedPairs() {
			if hasStatus(p.from) || !hasStatus(p.to) || p.from.props == nil {
				continue
			}
			if holdsStatus(p.from.props) {
				out = append(out, report.Finding{
					Version: p.to.Name, Path: ".status", SchemaPath: p.to.tokens("subresources", "status"),
					Message: "a status subresource was added: .status in ordinary requests is ignored from now on",
				})
			}
		}
		return out
	},
}

// holdsStatus tells whether objects of the schema can have a status: it is declared, or kept as an unknown field.
func holdsStatus(p *props) bool {
	_, declared := p.Properties["status"]
	return declared || p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields
}
