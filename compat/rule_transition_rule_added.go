package compat

import (
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// transitionRuleAdded claims updates that a rule with oldSelf refuses and the old rules allowed (KEP-2876). It stands
// before the other rules about validation rules, which are about the object alone.
var transitionRuleAdded = Rule{
	ID:     "transition-rule-added",
	Level:  report.WritersRefused,
	Varies: true,
	Title:  "A validation rule now restricts updates",
	Why: `A rule with oldSelf compares an object with its stored state: for example, a field must not change, or may only grow. Stored objects ` +
		`stay valid, but the API server refuses clients that make such an update. The witness is a pair: the stored object and the update.

Some rules do not even accept an unchanged value, such as self > oldSelf. They refuse every update, so the object is stuck. The ` +
		`witness is then the object alone.`,
	Help: `Make sure that no client changes the field: no controller, no autoscaler and no user of kubectl. Then suppress the finding ` +
		`with that reason, and say in the rule's message what to do instead. Until then, leave the rule out and document the ` +
		`restriction.`,
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
	Instead: `
storageClass:
  type: string
  description: Do not change it after creation; create a new object instead.
`,
	claim: func(c *change) (string, bool) {
		return "a rule restricts updates: " + inlineJSON(ruleText(c)), c.Harm == contain.RefusedTransition
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
