package compat

import "sluice.dev/report"

// embeddedResourceAdded claims gaps of x-kubernetes-embedded-resource, the invalid metadata of such an object
// included (pkg/apiserver/schema/objectmeta). Requests to /status do not check embedded resources, and the finding
// says so where it matters.
var embeddedResourceAdded = Rule{
	ID:     "embedded-resource-added",
	Level:  report.ObjectsStuck,
	Varies: true,
	Title:  "An object now has to be a complete Kubernetes resource",
	Why: `With x-kubernetes-embedded-resource an object needs apiVersion, kind and valid metadata. The API server refuses stored objects that ` +
		`lack them.`,
	Help: `Leave the marker out if the object may be partial, and keep its fields with x-kubernetes-preserve-unknown-fields.`,
	Unsafe: Example{
		Old: oneField("template", "type: object", "x-kubernetes-preserve-unknown-fields: true"),
		New: oneField("template", "type: object", "x-kubernetes-embedded-resource: true", "x-kubernetes-preserve-unknown-fields: true"),
	},
	Instead: oneField("template", "type: object", "x-kubernetes-preserve-unknown-fields: true"),
	claim: func(c *change) (string, bool) {
		return "the object now has to be a complete resource", c.isRefusedBy("x-kubernetes-embedded-resource")
	},
}
