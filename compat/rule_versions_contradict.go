package compat

import (
	"context"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var versionsContradict = Rule{
	ID:    "versions-contradict",
	Level: report.ClientsBroken,
	Title: "A version refuses what another version holds, and nothing converts between them",
	Why: `Under the conversion strategy None an object that was written through one version is served through the other one as it is, with the ` +
		`defaults of the version that it was written in. Where the other version refuses what stands there, its clients read what they cannot write ` +
		`back: their updates are refused, unless they leave the field alone and the API server ratchets.

The rule asks about the objects that the old CRD can hold: those that were written in any of its versions, and every version that the new CRD serves. ` +
		`What the old CRD refused already between its versions is not reported. Nor is what only the new CRD can hold, for example a new enum value in ` +
		`one version: added-in-one-version warns of that.`,
	Help: `Make the change in all versions, or convert with a webhook.`,
	Unsafe: Example{
		Old: `
versions:
- name: v1beta1
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
              maximum: 9
`,
	},
	Safe: Example{
		Old: `
versions:
- name: v1beta1
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
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		for _, x := range c.reachable(ctx).refused {
			f := c.cross(x)
			if x.Verdict == contain.Unknown {
				f.Outcome, f.Message = report.Undecided, Undetermined+": it is not known whether what is written as "+x.from.Name+" fits "+x.to.Name
				out = append(out, f)
				continue
			}
			f.Level = report.ClientsBroken
			f.Message = "what is written as " + x.from.Name + " does not fit " + x.to.Name + ": " + brief.Clip(f.Witness.Effect, maxInline)
			out = append(out, f)
		}
		return out
	},
}
