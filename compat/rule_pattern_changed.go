package compat

import "sluice.dev/report"

// patternChanged claims strings that the old pattern matches and the new one does not. Patterns are those of Go's
// package regexp, as the API server uses them.
var patternChanged = Rule{
	ID:     "pattern-changed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A pattern no longer matches all strings that it matched before",
	Why: `Sluice compares the two patterns as sets of strings: the witness matches the old pattern and not the new one. Ratcheting ` +
		`tolerates such a stored string only while it stays unchanged. Without ratcheting, the API server refuses every update of the ` +
		`object. If a pattern is only written differently, or matches more than before, nothing is reported.`,
	Help: `Let the new pattern match everything that the old one matches, for example by joining both with |.`,
	Unsafe: Example{
		Old: oneField("host", "type: string", "pattern: ^[a-z]*$"),
		New: oneField("host", "type: string", "pattern: ^[a-z]+$"),
	},
	Instead: oneField("host", "type: string", "pattern: ^[a-z]+$|^[a-z]*$"),
	claim:   claimChanged("pattern"),
}
