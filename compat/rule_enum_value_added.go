package compat

import "sluice.dev/report"

// enumValueAdded is about readers too. The witness is an object that the new CRD accepts, and the old one does not,
// because of that value.
var enumValueAdded = Rule{
	ID:    "enum-value-added",
	Level: report.ReadersSurprised,
	Title: "A value was added to an enum",
	Why: `Readers of the old schema may handle each listed value and no other: an older controller, a dashboard, a generated client that ` +
		`refuses unknown values. After a rollback, the API server refuses objects that hold the new value.`,
	Help: `First release readers that know the value or ignore unknown ones. Add the value to the enum in the next release, before ` +
		`any client writes it.`,
	Unsafe: Example{
		Old: oneField("mode", "type: string", "enum: [fast, slow]"),
		New: oneField("mode", "type: string", "enum: [fast, slow, adaptive]"),
	},
	Instead: oneField("mode", "type: string", "enum: [fast, slow]", "description: The next release adds adaptive."),
	whole:   readersRule("enum-value-added"),
	inSpec:  true,
}
