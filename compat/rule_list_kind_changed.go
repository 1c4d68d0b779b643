package compat

import "sluice.dev/report"

// listKindChanged compares the names with their defaults filled in, so that a list kind that is written out for the
// first time is no change.
var listKindChanged = Rule{
	ID:    "list-kind-changed",
	Level: report.ClientsBroken,
	Title: "The kind of lists changed",
	Why: `Typed clients decode the answer to a list request by its kind. A client that was compiled with the old list kind cannot ` +
		`decode lists any more. Informers list first, so controllers stop too. If a CRD sets no list kind, the list kind is the kind ` +
		`followed by List.`,
	Help: `Keep the list kind.`,
	Unsafe: Example{
		Old: oneField("names", "kind: Widget", "plural: widgets", "listKind: WidgetList"),
		New: oneField("names", "kind: Widget", "plural: widgets", "listKind: Widgets"),
	},
	Instead: oneField("names", "kind: Widget", "plural: widgets", "listKind: WidgetList"),
	whole: ofBothCRDs(func(c *comparison) []report.Finding {
		return c.nameChanged("list kind", listKind(&c.old.Spec.Names), listKind(&c.new.Spec.Names), "spec", "names", "listKind")
	}),
}
