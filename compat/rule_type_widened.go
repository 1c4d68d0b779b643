package compat

import "sluice.dev/report"

// typeWidened is about readers, see [isWiderType].
var typeWidened = Rule{
	ID:    "type-widened",
	Level: report.ReadersSurprised,
	Title: "The new type accepts more values than the old one",
	Why: `The type changes from integer to number or int-or-string, or to any value. Stored objects stay valid. A typed reader of the old ` +
		`schema fails to decode an object with a value of the new kind. Whole lists and watches fail with it. Server-side apply is not ` +
		`affected.`,
	Help: `Add a second field with the wider type. Or release readers that can decode the wider type before any client writes such ` +
		`values.`,
	Unsafe:  Example{Old: oneField("timeout", "type: integer"), New: oneField("timeout", "x-kubernetes-int-or-string: true")},
	Instead: exampleFields(exampleField("timeout", "type: integer"), exampleField("timeoutOrPercent", "x-kubernetes-int-or-string: true")),
	whole:   readersRule("type-widened"),
	inSpec:  true,
}
