package compat

import "sluice.dev/report"

// oddValueRefused is the first rule about schemas, so that no other one claims a gap that only unusual spellings meet
// and fails the check for it.
var oddValueRefused = Rule{
	ID:    "odd-value-refused",
	Title: "The new CRD refuses only an unusual spelling of a value, such as 1.0 for an integer",
	Why: `The API server accepts the number 1.0 for an integer, but a validation rule on it fails with an error. The API server ` +
		`stores the number as 1, and kubectl and all clients written in Go send 1. So no stored object is affected, and hardly any ` +
		`client is. Two more cases belong here. One is a number in an int-or-string field with a fraction smaller than a billionth of ` +
		`its value: validation ignores the fraction. The other is a list in place of a string with a format, which the API server ` +
		`accepts by an oversight.

Sluice reports this because "safe" is meant literally. The note never fails a check. For all other values, Sluice has proven that the ` +
		`new CRD refuses none.`,
	Help: `You need not do anything, unless a client sends integers with a fraction, or lists in place of strings. In the example, leave the ` +
		`rule out: the maximum says the same.`,
	Unsafe: Example{
		Old: `
replicas:
  type: integer
  maximum: 5
`, New: `
replicas:
  type: integer
  maximum: 5
  x-kubernetes-validations:
  - rule: self <= 5
`,
	},
	Instead: `
replicas:
  type: integer
  maximum: 5
`,
	claim: func(c *change) (string, bool) {
		_, list := listForStringRefused.claim(c)
		return "the new CRD refuses only an unusual spelling of a value, such as 1.0 for an integer", c.OddAlone && !list
	},
	outcome: report.Note,
}
