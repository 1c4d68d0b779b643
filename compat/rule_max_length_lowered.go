package compat

import "sluice.dev/report"

// maxLengthLowered claims strings with more runes than the new bound; bytes do not count. If an enum keeps
// strings short anyway, there is no gap.
var maxLengthLowered = Rule{
	ID:     "max-length-lowered",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "maxLength was added or lowered",
	Why: `Stored strings may be longer. Ratcheting tolerates such a string only while it stays unchanged. Without ratcheting, the API ` +
		`server refuses every update of the object. Authors often add a length only to make validation rules cheap enough.`,
	Help: `Choose a length that no stored string exceeds. To make rules cheaper, even a length of a megabyte helps.`,
	Unsafe: Example{
		Old: oneField("title", "type: string", "maxLength: 8"),
		New: oneField("title", "type: string", "maxLength: 4"),
	},
	Instead: oneField("title", "type: string", "maxLength: 8"),
	claim:   claimTightened("maxLength", "lowered"),
}
