package config

import (
	"maps"
	"slices"
)

// What the schemas are made of.
var (
	Known           = knownRules
	CrdifyPolicies  = crdifyPolicies
	CrdifyKeys      = crdifyKeys
	CrdifyEnforces  = crdifyEnforcements
	CrdifyConverts  = crdifyConversions
	OwnKeys         = ownKeys
	SuppressionKeys = suppressionKeys
	KappKeys        = kappKeys
	Modes           = modes
	CRDModes        = crdModes
	FailModes       = failModes
	Severities      = severities
	KubeVersion     = kubeVersion.String()
)

// RuleOf gives the severity that a configuration sets for a rule.
func RuleOf(c *Config, rule string) string { return c.rules[rule].text }

// CrdifyRules gives the rules of one of crdify's validations, and the keys of its configuration, sorted.
func CrdifyRules(name string) (rules, policies []string) {
	v := crdifyValidations[name]
	return v.rules, slices.Sorted(maps.Keys(v.policies))
}
