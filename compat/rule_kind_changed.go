package compat

import "sluice.dev/report"

// kindChanged reports the kind of spec. The kind in status.acceptedNames is what the API server serves, and follows
// it.
var kindChanged = Rule{
	ID:    "kind-changed",
	Level: report.ClientsBroken,
	Title: "The kind changed",
	Why: `Every stored object and every manifest names its kind. Clients could no longer decode objects of the old kind, so the API server ` +
		`refuses the change for a CRD that is in use.`,
	Help: `Keep the kind. To use a new name, add a second CRD and migrate the objects.`,
	Unsafe: Example{
		Old: oneField("names", "kind: Widget", "plural: widgets"),
		New: oneField("names", "kind: Gadget", "plural: widgets"),
	},
	Instead: oneField("names", "kind: Widget", "plural: widgets"),
	whole: ofBothCRDs(func(c *comparison) []report.Finding {
		return c.nameChanged("kind", c.old.Spec.Names.Kind, c.new.Spec.Names.Kind, "spec", "names", "kind")
	}),
}
