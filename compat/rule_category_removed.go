package compat

import "sluice.dev/report"

// categoryRemoved looks at spec.names.categories, which discovery lists for kubectl get CATEGORY. New categories harm
// nobody.
var categoryRemoved = Rule{
	ID:    "category-removed",
	Level: report.Cosmetic,
	Title: "A category was removed",
	Why: `kubectl get with the category, such as kubectl get all, no longer lists these objects. kubectl delete with it no longer deletes ` +
		`them.`,
	Help: `Keep the category.`,
	Unsafe: Example{
		Old: oneField("names", "kind: Widget", "plural: widgets", "categories: [all]"),
		New: oneField("names", "kind: Widget", "plural: widgets"),
	},
	Instead: oneField("names", "kind: Widget", "plural: widgets", "categories: [all]"),
	whole: ofBothCRDs(func(c *comparison) []report.Finding {
		return namesGone(c.old.Spec.Names.Categories, c.new.Spec.Names.Categories, func(name string) report.Finding {
			return report.Finding{
				Message: "category " + compactJSON(name) + " is gone", Before: name, SchemaPath: []string{"spec", "names", "categories"}, InOld: true,
			}
		})
	}),
}
