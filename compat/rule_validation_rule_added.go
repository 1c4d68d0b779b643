package compat

import "sluice.dev/report"

// validationRuleAdded claims what validation-rule-changed leaves: a rule that stands for no old one.
var validationRuleAdded = Rule{
	ID:     "validation-rule-added",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A validation rule was added",
	Why: `Stored objects were never checked against the rule. Ratcheting tolerates an object that breaks it only while the part that ` +
		`carries the rule stays unchanged. For a rule on the whole spec, every change of the spec is refused. Without ratcheting, the ` +
		`API server refuses every update, even the controller's update of the status.

If the schema or the old rules already imply the new rule, nothing is reported.`,
	Help: `Put the rule on the smallest part of the object that it needs, and accept a stored value as long as it stays unchanged. No stored ` +
		`object is harmed then. The check still reports writers-refused for new values; suppress that finding when the writers are ready.`,
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
	Instead: `
source:
  type: object
  properties:
    url: {type: string}
    path: {type: string}
  x-kubernetes-validations:
  - rule: has(self.url) != has(self.path) || oldSelf.hasValue() && self == oldSelf.value()
    optionalOldSelf: true
    message: either url or path has to be set
`,
	claim: func(c *change) (string, bool) {
		return "rule " + inlineJSON(ruleText(c)) + " was added", c.isRefusedBy("x-kubernetes-validations")
	},
}
