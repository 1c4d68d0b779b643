package compat

import (
	"context"
	"slices"

	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var versionsContradict = Rule{
	ID:    "versions-contradict",
	Level: report.ClientsBroken,
	Title: "Two versions contradict each other, and nothing converts between them",
	Why: `Under the conversion strategy None an object that was written through one version is served through the other one as it is. Where both ` +
		`versions have a field but disagree about what may stand in it, clients of one read what they cannot write back: their updates are refused, or ` +
		`lose a part of the field.

The rule compares the storage version with each other served version, and reports only contradictions that the old CRD did not have. A field that only ` +
		`one of them has is no contradiction.`,
	Help: `Make the change in all versions, or convert with a webhook.`,
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
              x-kubernetes-int-or-string: true
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
		if !c.both() || converts(c.new) {
			return nil
		}
		var out []report.Finding
		for _, p := range c.crossPairs() {
			for _, g := range c.contradictions(ctx, p) {
				f := c.tell(newChange(p, g))
				f.Level = report.ClientsBroken
				f.Message = "what is written as " + p.from.Name + " does not fit " + p.to.Name + ": " + cut(f.Witness.Effect, maxInline)
				out = append(out, f)
			}
		}
		return out
	},
}

// contradictions are the gaps between two versions of the new CRD that the same versions of the old one did not have, at
// places that both know. Only what is shown by a witness counts: the versions were not made to be compared.
func (c *comparison) contradictions(ctx context.Context, p pair) []contain.Gap {
	if !p.from.Served || !p.to.Served || p.from.build() != nil || p.to.build() != nil || p.from.node().Hash() == p.to.node().Hash() {
		return nil
	}
	before := pair{find(c.oldParts, p.from.Name), find(c.oldParts, p.to.Name)}
	had := before.from != nil && before.to != nil && before.from.Served && before.to.Served && !converts(c.old)
	if had && unchanged(before.from, p.from) && unchanged(before.to, p.to) {
		return nil
	}
	var told map[gapKey]bool
	if p.to.Storage {
		told = gapKeys(c.storageGaps(ctx))
	}
	var out []contain.Gap
	for _, g := range c.decide(ctx, p) {
		if g.Verdict == contain.NotContained && contradicts(newChange(p, g)) && !told[keyOf(&g)] {
			out = append(out, g)
		}
	}
	if had && len(out) > 0 {
		old := gapKeys(c.decide(ctx, before))
		out = slices.DeleteFunc(out, func(g contain.Gap) bool { return old[keyOf(&g)] })
	}
	return out
}

// contradicts tells whether the gap is about a field that both sides know.
func contradicts(c *change) bool {
	switch c.Harm {
	case contain.Refused:
		return c.Keyword != "required" || c.old.Property(c.Detail) != nil
	case contain.Pruned:
		return c.last().Kind != contain.Field || c.Keyword != "properties"
	case contain.Redefaulted, contain.RefusedTransition:
	}
	return false
}

func unchanged(o, n *part) bool {
	return o.build() == nil && n.build() == nil && o.node().Hash() == n.node().Hash()
}
