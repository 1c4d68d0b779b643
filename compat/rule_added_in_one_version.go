package compat

import (
	"context"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var addedInOneVersion = Rule{
	ID:    "added-in-one-version",
	Level: report.ReadersSurprised,
	Title: "A version accepts from now on what another served version cannot write back",
	Why: `A field, an enum value, a wider type, a longer list, a field that may be left out from now on: where only one version gains it, objects that use it ` +
		`are served through the other versions all the same. Under the conversion strategy None a client of such a version either does not see the new ` +
		`field, and erases it with its next write, or reads a value that it cannot write back. If the storage version is the one that lacks the field, nothing ` +
		`of it is ever stored.

All of these are the same thing: no object that exists is harmed, and whoever begins to use what is new has to know the clients of the other versions. So all ` +
		`of them are warnings. What objects of the old CRD meet is reported by version-erases-data and versions-contradict, which fail.`,
	Help: `Make the addition in all versions that are served, and in the storage version; or convert with a webhook; or use the addition once the other versions ` +
		`are no longer served.`,
	Unsafe: Example{
		Old: `
versions:
- name: v1beta1
  served: true
  storage: false
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            size:
              type: integer
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
            size:
              type: integer
`,
		New: `
versions:
- name: v1beta1
  served: true
  storage: false
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            size:
              type: integer
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
            size:
              type: integer
            color:
              type: string
`,
	},
	Safe: Example{
		Old: `
versions:
- name: v1beta1
  served: true
  storage: false
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            size:
              type: integer
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
            size:
              type: integer
`,
		New: `
versions:
- name: v1beta1
  served: true
  storage: false
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            size:
              type: integer
            color:
              type: string
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
            size:
              type: integer
            color:
              type: string
`,
	},
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		for _, x := range c.reachable(ctx).onesided {
			f := c.cross(x)
			f.Level, f.Severity = report.ReadersSurprised, ""
			switch {
			case x.Harm == contain.Pruned && x.to.Storage:
				f.Message = "what is written as " + x.from.Name + " is stored without " + where(f) + ", which the storage version " + x.to.Name + " does not have"
			case x.Harm == contain.Pruned:
				f.Message = "clients of " + x.to.Name + " erase " + where(f) + ", which only " + x.from.Name + " has from now on"
			default:
				f.Message = "what " + x.from.Name + " accepts from now on does not fit " + x.to.Name + ": " + brief.Clip(f.Witness.Effect, maxInline)
			}
			out = append(out, f)
		}
		return out
	},
}
