package compat

import "sluice.dev/report"

var oddValueRefused = Rule{
	ID:    "odd-value-refused",
	Title: "Only a value that hardly anybody writes is refused, such as 1.0 for an integer",
	Why: `The API server takes the number 1.0 where an integer is asked for, but validation rules do not: to them it is an error. It is stored as 1, and kubectl ` +
		`and all clients written in Go send 1, so that no stored object is concerned, and hardly any client. The same goes for integers with a fraction of less than a ` +
		`billionth of their value, which are overlooked where int-or-string is declared, and for lists in place of strings that have a format, which are let through by an oversight. It is told so that "safe" stays true to the letter.

This is a note: it never fails a check. For all other values it is proven that nothing is refused.`,
	Help: `Nothing has to be done, unless a client sends JSON in which integers are written with a fraction, or lists where a string is meant.`,
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
	Safe: Example{Old: `
weight:
  type: number
  maximum: 5
`, New: `
weight:
  type: number
  maximum: 5
  x-kubernetes-validations:
  - rule: self <= 5.0
`},
	claim: func(c *change) (string, bool) {
		_, list := listForStringRefused.claim(c)
		return "only a value that hardly anybody writes is refused from now on, such as 1.0 for an integer", c.OddAlone && !list
	},
	outcome: report.Note,
}
