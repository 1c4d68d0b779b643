package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// listForStringRefused is a note about an oversight in the validation of formats, which takes a list of strings for a
// string. It stands before format-added and format-changed, and odd-value-refused leaves these gaps to it.
var listForStringRefused = Rule{
	ID:    "list-for-string-refused",
	Title: "A list in place of a string, accepted by an oversight of the API server, is now refused",
	Why: `If a string has a format that the API server checks, validation also accepts a list of strings. That is an oversight. When ` +
		`the format is removed or the type changes, the API server refuses such a list. Hardly any object has one. Sluice reports ` +
		`this because "safe" is meant literally.

The note never fails a check.`,
	Help:    `You need not do anything, unless a client did write lists there. In the example, keep the format.`,
	Unsafe:  Example{Old: oneField("address", "type: string", "format: ipv4"), New: oneField("address", "type: string")},
	Instead: oneField("address", "type: string", "format: ipv4"),
	claim: func(c *change) (string, bool) {
		return "a list in place of the string is now refused; the API server accepted it by an oversight",
			c.Keyword == "format" && c.Detail == contain.ListsLetThrough
	},
	outcome: report.Note,
}
