package compat

import "sluice.dev/report"

var embeddedResourceAdded = Rule{
	ID:     "embedded-resource-added",
	Level:  report.ObjectsStuck,
	Varies: true,
	Title:  "An object has to be a complete Kubernetes resource now",
	Why:    `With x-kubernetes-embedded-resource an object needs apiVersion, kind and valid metadata. Stored ones that lack them are refused.`,
	Help:   `Do without the marker where the object may be partial, and keep its fields with x-kubernetes-preserve-unknown-fields.`,
	Unsafe: Example{
		Old: `
template:
  type: object
  x-kubernetes-preserve-unknown-fields: true
`, New: `
template:
  type: object
  x-kubernetes-embedded-resource: true
  x-kubernetes-preserve-unknown-fields: true
`,
	},
	Safe: Example{Old: `
template:
  type: object
  x-kubernetes-embedded-resource: true
  x-kubernetes-preserve-unknown-fields: true
`, New: `
template:
  type: object
  x-kubernetes-preserve-unknown-fields: true
`},
	claim: func(c *change) (string, bool) {
		return "the object has to be a complete resource now", c.is("x-kubernetes-embedded-resource")
	},
}
