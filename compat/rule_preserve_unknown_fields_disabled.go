package compat

import (
	"context"

	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// preserveUnknownFieldsDisabled gathers the gaps that come of this switch alone, one at each object of the schema. It
// finds them by asking once more as if the old CRD had pruned: what is left then has another reason, and a finding of
// its own.
var preserveUnknownFieldsDisabled = Rule{
	ID:    "preserve-unknown-fields-disabled",
	Level: report.DataLost,
	Title: "spec.preserveUnknownFields was switched off, so unknown fields are pruned",
	Why: `A CRD with spec.preserveUnknownFields: true (once the default) keeps every field of an object, declared or not. Without it, the API ` +
		`server drops undeclared fields when it reads an object, and the next write removes them for good.

One finding covers all places. The API server refuses to switch spec.preserveUnknownFields back on.`,
	Help: `Declare the fields that objects hold, or set x-kubernetes-preserve-unknown-fields in the schemas. Search the stored objects for ` +
		`fields that the schema does not declare.`,
	Unsafe: Example{
		Old: `
preserveUnknownFields: true` + exampleVersions(storedVersion("v1", exampleSchema(exampleField("spec", "type: object")))),
		New: exampleVersions(storedVersion("v1", exampleSchema(exampleField("spec", "type: object")))),
	},
	Instead: exampleVersions(
		storedVersion("v1", `schema:
  openAPIV3Schema:
    type: object
    x-kubernetes-preserve-unknown-fields: true
    properties:
      spec:
        type: object
        x-kubernetes-preserve-unknown-fields: true`),
	),
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		if !c.preserveDisabled() {
			return nil
		}
		var rest []report.Finding // one that is undecided, or else a note
		for _, p := range c.pairs {
			for _, g := range c.decidePair(ctx, p) {
				if !c.onlyByPreserve(ctx, p, &g) {
					continue
				}
				f := c.findingOf(newChange(p, g))
				f.SchemaPath, f.InOld = []string{"spec", "preserveUnknownFields"}, false
				f.Before, f.After = "true", "false"
				if g.Verdict == contain.NotContained {
					f.Path, f.Message = "", "unknown fields are no longer kept anywhere, as spec.preserveUnknownFields is no longer set"
				}
				switch {
				case f.Outcome == report.Violation:
					return []report.Finding{f}
				case len(rest) == 0 || rest[0].Outcome == report.Note && f.Outcome == report.Undecided:
					rest = []report.Finding{f}
				}
			}
		}
		return rest
	},
}

// preserveDisabled reports whether spec.preserveUnknownFields was switched off.
func (c *comparison) preserveDisabled() bool {
	return c.hasBothCRDs() && c.old.Spec.PreserveUnknownFields && !c.new.Spec.PreserveUnknownFields
}

// onlyByPreserve reports whether the gap comes from spec.preserveUnknownFields alone.
func (c *comparison) onlyByPreserve(ctx context.Context, p pair, g *contain.Gap) bool {
	if g.Harm != contain.Pruned || p.from.props == nil {
		return false
	}
	return !gapKeys(c.decidePair(ctx, pair{c.afterStep(p.from, step{kind: stepPruneUnknown}), p.to}))[keyOf(g)]
}
