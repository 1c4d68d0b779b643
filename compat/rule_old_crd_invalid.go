package compat

import (
	"context"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
)

var oldCRDInvalid = Rule{
	ID:    "old-crd-invalid",
	Title: "The old CRD would be refused by today's API server",
	Why: `The old CRD is not what an API server of the linked libraries' version accepts; an older one did, or nobody ever installed it. It is ` +
		`compared as far as it goes, but what it means is then not certain: an invalid default, for example, is filled in by some versions and not by others.

This is a note: it never fails a check.`,
	Help: `Nothing has to be done. If the old file is not what is installed, compare with the cluster instead.`,
	Unsafe: Example{
		Old: `
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
              default: many
`,
		New: `
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
`,
	},
	Safe: Example{
		Old: `
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
              default: 1
`,
		New: `
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
              default: 1
            paused:
              type: boolean
`,
	},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		errs := c.refusal().old
		if len(errs) == 0 {
			return nil
		}
		f := report.Finding{
			Outcome: report.Note, InOld: true,
			Message: "the old CRD is itself refused by this Kubernetes version: " + brief.Clip(errs[0].Error(), maxEffect),
		}
		if len(errs) > 1 {
			f.Message += " (and " + index(len(errs)-1) + " more)"
		}
		f.SchemaPath, f.Version, f.Path = locate(errs[0].Field, c.oldParts)
		return []report.Finding{f}
	},
}
