package compat

import (
	"slices"

	"sluice.dev/report"
	"sluice.dev/schema"
)

// validationRuleChanged claims values that a rule refuses, if the rule replaces an old one, see [replacedRuleOf].
// Both texts are then in the finding. It stands before validation-rule-added.
var validationRuleChanged = Rule{
	ID:     "validation-rule-changed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A validation rule refuses values that it accepted before",
	Why: `Sluice compares rules by the values that they accept, not by their text. If a rule is only written differently, accepts ` +
		`more or has a new message, nothing is reported. The witness satisfies the old rules and not the new one. Ratcheting ` +
		`tolerates such a stored object only while the part that carries the rule stays unchanged. Without ratcheting, the API server ` +
		`refuses every update of the object.`,
	Help: `Keep the old rule, and add the new one in a form that accepts a stored value as long as it stays unchanged. No stored object is ` +
		`harmed then. The check still reports writers-refused for new values; suppress that finding when the writers are ready.`,
	Unsafe: Example{
		Old: `
replicas:
  type: integer
  x-kubernetes-validations:
  - rule: self <= 10
    message: too many replicas
`, New: `
replicas:
  type: integer
  x-kubernetes-validations:
  - rule: self <= 5
    message: too many replicas
`,
	},
	Instead: `
replicas:
  type: integer
  x-kubernetes-validations:
  - rule: self <= 10
    message: too many replicas
  - rule: self <= 5 || oldSelf.hasValue() && self == oldSelf.value()
    optionalOldSelf: true
    message: too many replicas
`,
	claim: func(c *change) (string, bool) {
		if !c.isRefusedBy("x-kubernetes-validations") {
			return "", false
		}
		before := replacedRuleOf(c)
		if before == "" {
			return "", false
		}
		c.Before = before
		return "rule " + inlineJSON(before) + " was replaced by " + inlineJSON(c.Detail), true
	},
}

// replacedRuleOf returns the rule that the new one stands for: one that is gone and has its message or its place. It is empty
// where there is none.
func replacedRuleOf(c *change) string {
	if c.old == nil || c.new == nil || c.Rule < 0 || c.Rule >= len(c.new.Rules) {
		return ""
	}
	has := func(rules []schema.Rule, text string) bool {
		return slices.ContainsFunc(rules, func(r schema.Rule) bool { return r.Rule == text })
	}
	if has(c.old.Rules, c.Detail) {
		return c.Detail
	}
	rule := &c.new.Rules[c.Rule]
	at := ""
	for i, r := range c.old.Rules {
		if said := r.Message != "" && r.Message == rule.Message; !said && i != c.Rule || has(c.new.Rules, r.Rule) {
			continue // the cheap question first: there may be thousands of rules
		}
		if r.Message != "" && r.Message == rule.Message {
			return r.Rule
		}
		if i == c.Rule {
			at = r.Rule
		}
	}
	return at
}
