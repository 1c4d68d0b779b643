package compat

import (
	"context"

	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var conversionWebhookDropped = Rule{
	ID:    "conversion-webhook-dropped",
	Level: report.ClientsBroken,
	Title: "The conversion webhook is gone while versions with different schemas remain",
	Why: `Objects are stored in one version and asked for in others. Without the webhook the API server changes nothing but apiVersion, and prunes ` +
		`what the schema of the other version does not know: fields that the webhook would have renamed are lost on the next write.

Versions whose schemas are equal need no webhook; then nothing is reported.`,
	Help: `Keep the webhook as long as two versions with different schemas are served, or an object may be stored in a version that is not the only ` +
		`served one.`,
	Unsafe: Example{
		Old: `
conversion:
  strategy: Webhook
  webhook:
    conversionReviewVersions: [v1]
    clientConfig:
      service: {name: widget-webhook, namespace: widgets}
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
            colour:
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
            color:
              type: string
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
            colour:
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
            color:
              type: string
`,
	},
	Safe: Example{
		Old: `
conversion:
  strategy: Webhook
  webhook:
    conversionReviewVersions: [v1]
    clientConfig:
      service: {name: widget-webhook, namespace: widgets}
versions:
- name: v1beta1
  served: true
  storage: false
- name: v1
  served: true
  storage: true
`,
		New: `
versions:
- name: v1beta1
  served: true
  storage: false
- name: v1
  served: true
  storage: true
`,
	},
	whole: func(ctx context.Context, c *comparison) []report.Finding {
		if !c.both() || !converts(c.old) || converts(c.new) {
			return nil
		}
		pairs := c.crossPairs()
		differ := false
		for _, p := range pairs {
			differ = differ || p.from.build() != nil || p.to.build() != nil || p.from.node().Hash() != p.to.node().Hash()
		}
		if !differ {
			return nil
		}
		f := report.Finding{
			Message: "the conversion webhook is gone while versions with different schemas remain", Before: "Webhook", After: "None",
			SchemaPath: []string{"spec", "conversion"}, InOld: true,
		}
		for _, p := range pairs {
			for _, g := range c.decide(ctx, pair{c.settled(p.from, nil), p.to}) {
				if g.Harm == contain.Pruned && g.Verdict == contain.NotContained {
					f.Witness, f.Version = witness(&g), p.to.Name
					f.Witness.AcceptedBy, f.Witness.JudgedBy = p.from.named(), p.to.named()
					f.Message += ": what is written as " + p.from.Name + " is pruned as " + p.to.Name
					return []report.Finding{f}
				}
			}
		}
		return []report.Finding{f}
	},
}

// crossPairs are the ways that an object can go from one version of the new CRD to another: it is written in a version
// that is served, or has been stored in one, and is then stored in the storage version; from there it is read in any that
// is served.
func (c *comparison) crossPairs() []pair {
	store := storage(c.newParts)
	if store == nil {
		return nil
	}
	var out []pair
	for _, p := range c.newParts {
		if p == store {
			continue
		}
		if p.Served || c.isStored(p.Name) {
			out = append(out, pair{p, store})
		}
		if p.Served {
			out = append(out, pair{store, p})
		}
	}
	return out
}
