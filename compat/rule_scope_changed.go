package compat

import "sluice.dev/report"

// scopeChanged compares spec.scope as written. The API server refuses another scope once the CRD is established.
var scopeChanged = Rule{
	ID:    "scope-changed",
	Level: report.ClientsBroken,
	Title: "The scope changed",
	Why: `Objects in a namespace and cluster-scoped objects have different storage keys and different URLs. After a change, no client ` +
		`could reach the existing objects. So the API server refuses the change for a CRD that is in use.`,
	Help:    `Keep the scope. To change it, add a second CRD with another name and migrate the objects.`,
	Unsafe:  Example{Old: "\nscope: Namespaced\n", New: "\nscope: Cluster\n"},
	Instead: "\nscope: Namespaced\n",
	whole: ofBothCRDs(func(c *comparison) []report.Finding {
		return c.nameChanged("scope", string(c.old.Spec.Scope), string(c.new.Spec.Scope), "spec", "scope")
	}),
}
