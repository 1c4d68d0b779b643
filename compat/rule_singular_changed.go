package compat

import "sluice.dev/report"

// singularChanged compares the names with their defaults filled in, as list-kind-changed does.
var singularChanged = Rule{
	ID:    "singular-changed",
	Level: report.ClientsBroken,
	Title: "The singular name changed",
	Why: `People type the singular name after kubectl get, and scripts and aliases use it. With the old name, kubectl answers that ` +
		`the resource does not exist. If a CRD sets no singular, the singular is the kind in lower case.`,
	Help: `Keep the singular, and add the new word as a short name.`,
	Unsafe: Example{
		Old: oneField("names", "kind: Widget", "plural: widgets", "singular: widget"),
		New: oneField("names", "kind: Widget", "plural: widgets", "singular: widgit"),
	},
	Instead: oneField("names", "kind: Widget", "plural: widgets", "singular: widget", "shortNames: [widgit]"),
	whole: ofBothCRDs(func(c *comparison) []report.Finding {
		return c.nameChanged("singular", singularOrDefault(&c.old.Spec.Names), singularOrDefault(&c.new.Spec.Names), "spec", "names", "singular")
	}),
}
