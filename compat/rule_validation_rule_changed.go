package compat

import (
	"slices"

	"sluice.dev/report"
	"sluice.dev/schema"
)

var validationRuleChanged = Rule{
	ID:     "validation-rule-changed",
	Level:  report.ObjectsRatcheted,
	Varies: true,
	Title:  "A validation rule refuses what it let through",
	Why: `The rules are compared by what they let through, not by their text: one that is written differently, or lets more through, is not reported, ` +
		`nor is a new message. The witness satisfies the old rules and not the new one. A stored object like it is refused when the part of it that the rule ` +
		`stands on is touched, or with any update where updates are not ratcheted.`,
	Help: `Let the rule pass what is stored and unchanged: with optionalOldSelf: true and "oldSelf.hasValue() && self == oldSelf.value() || …" in front.`,
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
	Safe: Example{Old: `
replicas:
  type: integer
  x-kubernetes-validations:
  - rule: self <= 5
`, New: `
replicas:
  type: integer
  x-kubernetes-validations:
  - rule: self <= 10
`},
	claim: func(c *change) (string, bool) {
		if !c.is("x-kubernetes-validations") {
			return "", false
		}
		before := replaced(c)
		if before == "" {
			return "", false
		}
		c.Before = before
		return "rule " + inline(before) + " was replaced by " + inline(c.Detail), true
	},
}

// replaced returns the rule that the new one stands for: one that is gone and has its message or its place. It is empty
// where there is none.
func replaced(c *change) string {
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
