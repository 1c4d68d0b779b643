package compat

import "sluice.dev/report"

// groupChanged reports two CRDs of one name with different groups, which only a faulty manifest can have: the name is
// PLURAL.GROUP.
var groupChanged = Rule{
	ID:    "group-changed",
	Level: report.ClientsBroken,
	Title: "The API group changed",
	Why: `The group is part of every object's apiVersion, of every URL and of every RBAC rule. The name of a CRD has to be ` +
		`plural.group, so the API server refuses another group under the same name. A CRD with a new name is a new API, without the ` +
		`old objects.`,
	Help: `Keep the group. To move to another group, add a second CRD, let a controller copy the objects, and remove the old CRD when ` +
		`no client uses it.`,
	Unsafe:  Example{Old: "\ngroup: example.com\n", New: "\ngroup: example.org\n"},
	Instead: "\ngroup: example.com\n",
	whole: ofBothCRDs(func(c *comparison) []report.Finding {
		return c.nameChanged("group", c.old.Spec.Group, c.new.Spec.Group, "spec", "group")
	}),
}
