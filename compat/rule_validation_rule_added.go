package compat

import "sluice.dev/report"

var validationRuleAdded = Rule{
	ID:     "validation-rule-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A validation rule was added",
	Why: `Stored objects were never held against the rule. One that does not satisfy it is refused when the part of it that the rule stands on is ` +
		`touched: a rule on the whole spec is evaluated with every change of the spec. Where updates are not ratcheted any update is refused, even one of ` +
		`the status by the controller.

A rule that says no more than what the schema or the old rules say already is not reported.`,
	Help: `Put the rule on the smallest part that it needs. Let it pass what is stored and unchanged, with optionalOldSelf: true and ` +
		`"oldSelf.hasValue() && self == oldSelf.value() || …" in front.`,
	Unsafe: Example{
		Old: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
`, New: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
  x-kubernetes-validations:
  - rule: has(self.url) != has(self.path)
    message: either url or path has to be set
`,
	},
	Safe: Example{Old: `
host:
  type: string
  minLength: 1
`, New: `
host:
  type: string
  minLength: 1
  x-kubernetes-validations:
  - rule: size(self) > 0
`},
	claim: func(c *change) (string, bool) {
		return "rule " + inline(ruleText(c)) + " was added", c.is("x-kubernetes-validations")
	},
}
