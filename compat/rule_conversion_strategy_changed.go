package compat

import (
	"context"

	"sluice.dev/report"
)

var conversionStrategyChanged = Rule{
	ID:    "conversion-strategy-changed",
	Level: report.ClientsBroken,
	Title: "A webhook converts what was passed on unchanged",
	Why: `Several versions are served, and so far an object looked the same in all of them. From now on every read and write in a version other than ` +
		`the storage version needs the webhook: while it is not running, or its certificate does not hold, those requests fail, and with them lists, ` +
		`watches and the deletion of namespaces.

Clients that rely on the same fields in all versions may find them renamed.`,
	Help: `Have the webhook running and reachable before the CRD names it. Then suppress the finding with that reason.`,
	Unsafe: Example{
		Old: `
versions:
- name: v1beta1
  served: true
  storage: false
- name: v1
  served: true
  storage: true
`,
		New: `
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
	},
	Safe: Example{
		Old: `
versions:
- name: v1beta1
  served: true
  storage: true
`,
		New: `
conversion:
  strategy: Webhook
  webhook:
    conversionReviewVersions: [v1]
    clientConfig:
      service: {name: widget-webhook, namespace: widgets}
versions:
- name: v1beta1
  served: true
  storage: true
- name: v1
  served: true
  storage: false
`,
	},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if !c.both() || converts(c.old) || !converts(c.new) || len(c.servedPairs()) < 2 {
			return nil
		}
		return []report.Finding{{
			Message: "conversion changed from None to Webhook while several versions are served", Before: "None", After: "Webhook",
			SchemaPath: []string{"spec", "conversion", "strategy"},
		}}
	},
}
