package compat

import "sluice.dev/report"

// pluralChanged reports two CRDs of one name with different plurals, which the API server refuses in any case: the
// name is PLURAL.GROUP.
var pluralChanged = Rule{
	ID:    "plural-changed",
	Level: report.ClientsBroken,
	Title: "The plural name changed",
	Why:   `The plural name is part of URLs, of RBAC rules and of the CRD's own name. The API server never lets it change.`,
	Help:  `Keep the plural, and add the new word as a short name. To use a new plural, add a second CRD and migrate the objects.`,
	Unsafe: Example{
		Old: oneField("names", "kind: Widget", "plural: widgets"),
		New: oneField("names", "kind: Widget", "plural: widgetz"),
	},
	Instead: oneField("names", "kind: Widget", "plural: widgets", "shortNames: [widgetz]"),
	whole: ofBothCRDs(func(c *comparison) []report.Finding {
		return c.nameChanged("plural", c.old.Spec.Names.Plural, c.new.Spec.Names.Plural, "spec", "names", "plural")
	}),
}
