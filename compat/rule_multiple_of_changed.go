package compat

import "sluice.dev/report"

// multipleOfChanged claims numbers that the new divisor does not divide. The API server divides floats and asks
// for a whole number.
var multipleOfChanged = Rule{
	ID:     "multiple-of-changed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "multipleOf was added or changed",
	Why: `Existing objects can hold numbers that are not a multiple of the new divisor. Ratcheting tolerates such a number only while ` +
		`it stays unchanged. Without ratcheting, the API server refuses every update of the object. If the new divisor divides the ` +
		`old one, every old value still fits, and nothing is reported.`,
	Help: `Choose a divisor of the old value, or round in the controller.`,
	Unsafe: Example{
		Old: oneField("size", "type: integer", "multipleOf: 2"),
		New: oneField("size", "type: integer", "multipleOf: 4"),
	},
	Instead: oneField("size", "type: integer", "multipleOf: 1"),
	claim:   claimTightened("multipleOf", "changed"),
}
