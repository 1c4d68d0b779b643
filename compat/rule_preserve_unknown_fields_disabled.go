package compat

import (
	"context"

	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var preserveUnknownFieldsDisabled = Rule{
	ID:    "preserve-unknown-fields-disabled",
	Level: report.DataLost,
	Title: "spec.preserveUnknownFields was switched off, so that unknown fields are pruned",
	Why: `A CRD with spec.preserveUnknownFields: true (once the default) keeps every field of an object, declared or not. From now on whatever the ` +
		`schemas do not declare is dropped when an object is read, and gone for good when it is written again.

One finding stands for all the places. The API server refuses the way back, from false to true.`,
	Help: `Declare what objects hold, or mark the places with x-kubernetes-preserve-unknown-fields in the schemas. Look at the stored objects for ` +
		`fields that nobody declared.`,
	Unsafe: Example{
		Old: `
preserveUnknownFields: true
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
`,
	},
	Safe: Example{
		Old: `
preserveUnknownFields: true
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
`,
		New: `
versions:
- name: v1
  served: true
  storage: true
  schema:
    openAPIV3Schema:
      type: object
      x-kubernetes-preserve-unknown-fields: true
      properties:
        spec:
          type: object
          x-kubernetes-preserve-unknown-fields: true
`,
	},
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		if !c.preserveDisabled() {
			return nil
		}
		var undecided []report.Finding
		for _, p := range c.pairs {
			for _, g := range c.decide(ctx, p) {
				if !c.onlyByPreserve(ctx, p, &g) {
					continue
				}
				f := c.tell(newChange(p, g))
				f.SchemaPath, f.InOld = []string{"spec", "preserveUnknownFields"}, false
				f.Before, f.After = "true", "false"
				if g.Verdict == contain.NotContained {
					f.Path, f.Message = "", "unknown fields are no longer kept anywhere, as spec.preserveUnknownFields is no longer set"
					return []report.Finding{f}
				}
				if len(undecided) == 0 {
					undecided = append(undecided, f)
				}
			}
		}
		return undecided
	},
}

// preserveDisabled tells whether spec.preserveUnknownFields was switched off.
func (c *comparison) preserveDisabled() bool {
	return c.both() && c.old.Spec.PreserveUnknownFields && !c.new.Spec.PreserveUnknownFields
}

// onlyByPreserve tells whether the gap comes from spec.preserveUnknownFields alone.
func (c *comparison) onlyByPreserve(ctx context.Context, p pair, g *contain.Gap) bool {
	if g.Harm != contain.Pruned || p.from.props == nil {
		return false
	}
	if p.from.plain == nil {
		p.from.plain = &part{crdVersion: p.from.crdVersion, index: p.from.index, isOld: true, props: schemaProps(p.from.crdVersion)}
		p.from.plainGaps = gapKeys(c.decide(ctx, pair{p.from.plain, p.to}))
	}
	return !p.from.plainGaps[keyOf(g)]
}
