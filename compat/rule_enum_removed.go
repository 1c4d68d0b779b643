package compat

import "sluice.dev/report"

// enumRemoved is about readers. It takes the widenings of that name, which the prover has confirmed, see
// [comparison.readersSurprised].
var enumRemoved = Rule{
	ID:    "enum-removed",
	Level: report.ReadersSurprised,
	Title: "An enum was removed, so any value is allowed",
	Why: `Readers could rely on the listed values; now they have to expect any value. After a rollback, the API server refuses objects that ` +
		`hold another value.`,
	Help:    `Keep the enum, and add the values that you need. Or release readers that check the value themselves before you remove it.`,
	Unsafe:  Example{Old: oneField("mode", "type: string", "enum: [fast, slow]"), New: oneField("mode", "type: string")},
	Instead: oneField("mode", "type: string", "enum: [fast, slow]"),
	whole:   readersRule("enum-removed"),
	inSpec:  true,
}
