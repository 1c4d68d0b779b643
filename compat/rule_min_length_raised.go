package compat

import "sluice.dev/report"

// minLengthRaised claims strings with fewer runes than the new bound.
var minLengthRaised = Rule{
	ID:     "min-length-raised",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "minLength was added or raised",
	Why: `Stored strings may be shorter. Ratcheting tolerates such a string only while it stays unchanged. Without ratcheting, the ` +
		`API server refuses every update of the object. The most frequent case is the empty string: clients in Go send it for a field ` +
		`that is not set, unless the field is marked omitempty.`,
	Help: `Accept the empty string as long as clients may send it, and let the controller treat it as a missing value. Or write the new length ` +
		`as a validation rule that accepts a stored value as long as it stays unchanged. The check then reports writers-refused for new ` +
		`values; suppress that finding when the writers are ready.`,
	Unsafe:  Example{Old: oneField("title", "type: string"), New: oneField("title", "type: string", "minLength: 1")},
	Instead: oneField("title", "type: string", toleratingRule("self.size() >= 1", "title cannot be empty")),
	claim:   claimTightened("minLength", "raised"),
}
