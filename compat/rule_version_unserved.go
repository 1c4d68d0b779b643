package compat

import (
	"context"

	"sluice.dev/report"
)

var versionUnserved = Rule{
	ID:    "version-unserved",
	Level: report.ClientsBroken,
	Title: "A version is no longer served",
	Why: `The version is still there, so that stored objects can be read, but requests for it are answered with 404. Clients and manifests that ` +
		`name it fail.`,
	Help: `Make sure that nobody uses the version: the API server counts requests to deprecated versions in the metric ` +
		`apiserver_requested_deprecated_apis, and warns clients where the version is marked as deprecated. Then suppress the finding with that reason.`,
	Unsafe: Example{Old: `
versions:
- name: v1alpha1
  served: true
  storage: false
- name: v1
  served: true
  storage: true
`, New: `
versions:
- name: v1alpha1
  served: false
  storage: false
- name: v1
  served: true
  storage: true
`},
	Safe: Example{Old: `
versions:
- name: v1alpha1
  served: false
  storage: false
- name: v1
  served: true
  storage: true
`, New: `
versions:
- name: v1
  served: true
  storage: true
`},
	whole: func(_ context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		for _, p := range c.pairs {
			if p.from.Served && !p.to.Served {
				out = append(out, report.Finding{
					Version: p.to.Name, Message: "version " + p.to.Name + " is no longer served", Before: "true", After: "false", SchemaPath: p.to.tokens("served"),
				})
			}
		}
		return out
	},
}
