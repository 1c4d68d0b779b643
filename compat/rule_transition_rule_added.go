package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

var transitionRuleAdded = Rule{
	ID:     "transition-rule-added",
	Level:  report.WritersRefused,
	Varies: true,
	Title:  "A validation rule restricts updates that were allowed",
	Why: `A rule that names oldSelf compares an object with what is stored: a field may no longer change, or only in one direction. Stored objects are ` +
		`as good as before, but clients that make such an update are refused. The witness is a pair: the stored object, and the update.

A rule that an unchanged value does not satisfy, such as self > oldSelf, refuses every update: then the object is stuck, and the witness is the object alone.`,
	Help: `Make sure that no client changes the field: controllers, autoscalers, and people with kubectl. Say in the rule's message what to do instead.`,
	Unsafe: Example{
		Old: `
storageClass:
  type: string
`, New: `
storageClass:
  type: string
  x-kubernetes-validations:
  - rule: self == oldSelf
    message: storageClass cannot be changed
`,
	},
	Safe: Example{Old: `
storageClass:
  type: string
  x-kubernetes-validations:
  - rule: self == oldSelf
    message: storageClass cannot be changed
`, New: `
storageClass:
  type: string
`},
	claim: func(c *change) (string, bool) {
		return "a rule restricts updates: " + inline(ruleText(c)), c.Harm == contain.RefusedTransition
	},
}

// ruleText is how people know a rule: by its message, or else by itself.
func ruleText(c *change) string {
	if c.new != nil && c.Rule >= 0 && c.Rule < len(c.new.Rules) {
		if r := &c.new.Rules[c.Rule]; r.Message != "" && r.MessageExpression == "" {
			return r.Message
		}
	}
	return c.Detail
}
