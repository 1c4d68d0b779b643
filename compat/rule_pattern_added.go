package compat

import "sluice.dev/report"

// patternAdded claims strings that a pattern refuses where the old schema had none.
var patternAdded = Rule{
	ID:     "pattern-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A pattern was added",
	Why: `Stored strings were never checked against the pattern. Ratcheting tolerates a string that does not match only while it ` +
		`stays unchanged. Without ratcheting, the API server refuses every update of the object. A pattern without ^ and $ matches ` +
		`anywhere in the string, which is rarely intended.`,
	Help: `Write the pattern as a validation rule that accepts a stored value as long as it stays unchanged. No stored object is harmed then. ` +
		`The check still reports writers-refused for new values; suppress that finding when the writers are ready. Or widen the pattern so ` +
		`that it matches all stored strings.`,
	Unsafe: Example{Old: oneField("host", "type: string"), New: oneField("host", "type: string", "pattern: ^[a-z]+$")},
	Instead: oneField("host", "type: string",
		toleratingRule(`self.matches("^[a-z]+$")`, "host has to consist of lower-case letters")),
	claim: claimAdded("pattern"),
}
