package compat

import "sluice.dev/report"

// formatAdded claims gaps of formats that the API server checks. Which these are depends on the Kubernetes version
// (formats.go in k8s.io/apiextensions-apiserver/pkg/apiserver/validation); a format that is not checked makes
// no gap.
var formatAdded = Rule{
	ID:     "format-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A format was added that the API server checks",
	Why: `The API server checks some formats (date-time, ipv4, uuid, int32 and others) and ignores formats that it does not know. The ` +
		`list depends on its version. Ratcheting tolerates a stored value without the format only while it stays unchanged.`,
	Help: `Write the format into the description, or as a validation rule that accepts a stored value as long as it stays unchanged. No stored ` +
		`object is harmed then. The check still reports writers-refused for new values; suppress that finding when the writers are ready.`,
	Unsafe: Example{Old: oneField("address", "type: string"), New: oneField("address", "type: string", "format: ipv4")},
	Instead: oneField("address", "type: string",
		"description: An IPv4 address.", toleratingRule("isIP(self)", "address has to be an IP address")),
	claim: func(c *change) (string, bool) {
		return "format " + inlineJSON(c.After) + " was added", c.isRefusedBy("format") && (c.old == nil || c.old.Format == "")
	},
}
