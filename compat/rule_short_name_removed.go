package compat

import "sluice.dev/report"

// shortNameRemoved looks at spec.names.shortNames. A name that another CRD takes over is reported like one that is
// gone.
var shortNameRemoved = Rule{
	ID:    "short-name-removed",
	Level: report.Cosmetic,
	Title: "A short name was removed",
	Why: `People and scripts type short names. With the removed one, kubectl get answers that the resource does not exist. Programs do not use ` +
		`short names.`,
	Help: `Keep the short name; a CRD may have several.`,
	Unsafe: Example{
		Old: oneField("names", "kind: Widget", "plural: widgets", "shortNames: [wd, wdg]"),
		New: oneField("names", "kind: Widget", "plural: widgets", "shortNames: [wd]"),
	},
	Instead: oneField("names", "kind: Widget", "plural: widgets", "shortNames: [wd, wdg]"),
	whole: ofBothCRDs(func(c *comparison) []report.Finding {
		return namesGone(c.old.Spec.Names.ShortNames, c.new.Spec.Names.ShortNames, func(name string) report.Finding {
			return report.Finding{
				Message: "short name " + compactJSON(name) + " is gone", Before: name, SchemaPath: []string{"spec", "names", "shortNames"}, InOld: true,
			}
		})
	}),
}
