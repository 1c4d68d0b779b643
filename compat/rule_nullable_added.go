package compat

import "sluice.dev/report"

// nullableAdded is about readers, and about writers whose null the API server dropped so far. The latter is found by
// asking the API server's own code, see [comparison.addNullRefused].
var nullableAdded = Rule{
	ID:     "nullable-added",
	Level:  report.ReadersSurprised,
	Varies: true,
	Title:  "null is now allowed",
	Why: `So far the API server dropped null or filled in the default; now it stores and serves null. Readers have to distinguish null from a ` +
		`missing field, and typed clients in languages other than Go may fail on it. A default no longer replaces null. ` +
		`Requests with null were accepted, and are refused now if the field has an enum (null equals no value of an enum, not even null), ` +
		`if the object may not have one field more, or if a rule or a junctor reads the field: has(self.a) is false of null, and null differs from no field in self == oldSelf.`,
	Help:    `Leave nullable out until all readers expect null. Until then, a missing field can mean "none". Beside an enum, null is refused in any case.`,
	Unsafe:  Example{Old: oneField("limit", "type: integer"), New: oneField("limit", "type: integer", "nullable: true")},
	Instead: oneField("limit", "type: integer", "description: No limit if not set."),
	whole:   readersRule("nullable-added"),
	inSpec:  true,
}
