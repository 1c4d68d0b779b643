package config_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/internal/config"
	"sluice.dev/internal/preflight"
)

// crdifyTable has every validation that crdify registers (kubernetes-sigs/crdify pkg/runner/registry.go at 54162f2, of March 2026; version
// 0.5.0 has all but pattern and nullable), with the rules that stand for it.
var crdifyTable = map[string][]string{
	"existingFieldRemoval": {"property-removed"},
	"scope":                {"scope-changed"},
	"storedVersionRemoval": {"stored-version-removed"},
	"default":              {"default-added", "default-changed", "default-removed"},
	"enum":                 {"enum-added", "enum-removed", "enum-value-added", "enum-value-removed"},
	"maximum":              {"maximum-lowered"},
	"maxItems":             {"max-items-lowered"},
	"maxLength":            {"max-length-lowered"},
	"maxProperties":        {"max-properties-lowered"},
	"minimum":              {"minimum-raised"},
	"minItems":             {"min-items-raised"},
	"minLength":            {"min-length-raised"},
	"minProperties":        {"min-properties-raised"},
	"required":             {"required-added"},
	"type":                 {"type-added", "type-changed", "type-narrowed", "type-widened"},
	"description":          nil,
	"pattern":              {"pattern-added", "pattern-changed"},
	"nullable":             {"nullable-added", "nullable-removed"},
}

func TestCrdifysValidations(t *testing.T) {
	if diff := cmp.Diff(slices.Sorted(maps.Keys(crdifyTable)), config.CrdifyValidations()); diff != "" {
		t.Errorf("validations (-crdify +sluice):\n%s", diff)
	}
	for name, rules := range crdifyTable {
		if got, _ := config.CrdifyRules(name); !slices.Equal(got, rules) {
			t.Errorf("%s: rules %v, want %v", name, got, rules)
		}
		for enforcement, want := range map[string]string{"Error": "fail", "Warn": "warn", "None": "off"} {
			c, _, err := config.Parse("f", []byte("validations:\n- name: "+name+"\n  enforcement: "+enforcement+"\n"), preflight.Rules())
			if err != nil {
				t.Fatal(err)
			}
			for _, rule := range preflight.Rules() {
				wanted := ""
				if slices.Contains(rules, rule) {
					wanted = want
				}
				if got := config.RuleOf(c, rule); got != wanted {
					t.Errorf("%s %s: rule %s is %q, want %q", name, enforcement, rule, got, wanted)
				}
			}
			told := strings.Join(c.Unmatched(), "")
			if (told == "") != (len(rules) > 0) || told != "" && !strings.HasPrefix(told, "f:2: the validation "+name+" has no rule") {
				t.Errorf("%s %s: told %q", name, enforcement, told)
			}
		}
		for _, rule := range rules {
			if !slices.Contains(preflight.Rules(), rule) {
				t.Errorf("%s: there is no rule %s", name, rule)
			}
		}
	}
}

func TestCrdifysFile(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		failMode   string
		rules      map[string]string
		told       []string
	}{
		{"nothing is enforced otherwise", "validations: []\n", "closed", nil, nil},
		{"unhandled changes fail", "unhandledEnforcement: Error\n", "closed", nil, nil},
		{"unhandled changes warn", "unhandledEnforcement: Warn\n", "open", nil, nil},
		{"unhandled changes are ignored", "unhandledEnforcement: None\n", "open", nil, []string{"f:1: unhandledEnforcement None: undecided changes are still reported, as warnings"}},
		{"conversion is ignored", "conversion: Ignore\n", "closed", nil, nil},
		{"conversion is not ignored", "conversion: None\n", "closed", nil, []string{"f:1: conversion None: where a webhook converts between versions, they are not compared with each other"}},
		{
			"added values are allowed", "validations:\n- name: enum\n  enforcement: Warn\n  configuration: {additionPolicy: Allow}\n", "closed",
			map[string]string{"enum-added": "warn", "enum-removed": "warn", "enum-value-added": "off", "enum-value-removed": "warn"},
			nil,
		},
		{
			"null is allowed and taken away", "validations:\n- {name: nullable, enforcement: Error, configuration: {additionPolicy: Disallow, removalPolicy: Allow}}\n", "closed",
			map[string]string{"nullable-added": "fail", "nullable-removed": "off"},
			nil,
		},
		{
			"patterns may go", "validations:\n- {name: pattern, enforcement: Error, configuration: {removalPolicy: Allow}}\n", "closed",
			map[string]string{"pattern-added": "fail", "pattern-changed": "fail"},
			nil,
		},
		{
			"patterns may not go", "validations:\n- {name: pattern, enforcement: Error, configuration: {removalPolicy: Disallow}}\n", "closed",
			map[string]string{"pattern-added": "fail", "pattern-changed": "fail"},
			[]string{"f:2: validations[0].configuration.removalPolicy Disallow has no rule: what is removed refuses nothing any more"},
		},
		{
			"Sluice's own keys beside it", "validations: [{name: scope, enforcement: Warn}]\n---\napiVersion: sluice.dev/v1alpha1\nkind: Config\nrules: {scope-changed: warn, default-added: off}\n", "closed",
			map[string]string{"scope-changed": "warn", "default-added": "off"},
			nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _, err := config.Parse("f", []byte(tt.text), preflight.Rules())
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, rule := range preflight.Rules() {
				if s := config.RuleOf(c, rule); s != "" {
					got[rule] = s
				}
			}
			if tt.rules == nil {
				tt.rules = map[string]string{}
			}
			if diff := cmp.Diff(tt.rules, got); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.told, c.Unmatched()); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if c.FailMode() != tt.failMode || c.Mode() != "error" {
				t.Errorf("mode %s, fail mode %s", c.Mode(), c.FailMode())
			}
		})
	}
}

func TestCrdifysFileRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"validations: {enum: Error}\n":                    "f:1: validations must be a list of validations, each with a name and an enforcement, not an object",
		"conversion: None\nvalidation: []\n":              `f:2: unknown key "validation" (did you mean "validations"?); the keys of crdify's configuration are validations, unhandledEnforcement, conversion`,
		"unhandledEnforcement: warn\n":                    `f:1: unhandledEnforcement "warn" (did you mean "Warn"?); allowed are Error, Warn, None`,
		"conversion: Webhook\n":                           `f:1: conversion "Webhook"; allowed are None, Ignore`,
		"validations:\n- enforcement: Error\n":            "f:2: validations[0] has no name; allowed are default, description, enum, ",
		"validations:\n- name: enum\n":                    "f:2: validations[0] has no enforcement; allowed are Error, Warn, None",
		"validations:\n- {name: enum, enforcement: }\n":   "f:2: enforcement must be a text, not empty",
		"validations:\n- enum\n":                          `f:2: validations[0] must be an object of keys and values, not "enum"`,
		"validations:\n- {name: enums, enforcement: x}\n": `f:2: validations[0].name "enums" (did you mean "enum"?); allowed are default, description, enum, existingFieldRemoval, `,
		"validations:\n- {name: enum, enforcement: Error}\n- name: type\n  enforcement: Fail\n":                                               `f:4: validations[1].enforcement "Fail"; allowed are Error, Warn, None`,
		"validations:\n- {name: enum, enforcement: Error}\n- {name: enum, enforcement: Warn}\n":                                               "f:3: validations[1]: the validation enum stands at line 2 already",
		"validations:\n- {name: enum, enforcement: Error, config: {}}\n":                                                                      `f:2: unknown key "config"; the keys of validations[0] are name, enforcement, configuration`,
		"validations:\n- {name: enum, enforcement: Error, configuration: {removalPolicy: Allow}}\n":                                           `f:2: unknown key "removalPolicy"; the keys of validations[0].configuration are additionPolicy`,
		"validations:\n- {name: enum, enforcement: Error, configuration: {additionPolicy: Yes}}\n":                                            `f:2: validations[0].configuration.additionPolicy "Yes"; allowed are Allow, Disallow`,
		"validations:\n- {name: scope, enforcement: Error, configuration: {a: b}}\n":                                                          `f:2: unknown key "a"; validations[0].configuration has no keys`,
		"validations:\n- {name: scope, enforcement: Error, configuration: []}\n":                                                              "f:2: validations[0].configuration must be an object of keys and values, not a list",
		"validations: [{name: scope, enforcement: Warn}]\n---\napiVersion: sluice.dev/v1alpha1\nkind: Config\nrules: {scope-changed: fail}\n": "f:5: scope-changed is fail here, but warn at f:1",
		"validation: []\n": "f:1: kind is missing; a configuration has kind: Config and apiVersion: sluice.dev/v1alpha1 or kapp.k14s.io/v1alpha1, or neither and only Sluice's keys (mode, failMode, kubeVersion, levels, rules, suppressions, allowLoss), or is crdify's, with validations, unhandledEnforcement, conversion",
	} {
		_, _, err := config.Parse("f", []byte(text), preflight.Rules())
		if err == nil {
			t.Errorf("%q is taken", text)
			continue
		}
		if first, _, _ := strings.Cut(err.Error(), "\n"); !strings.HasPrefix(first, want) {
			t.Errorf("%q: %s, want %s", text, err, want)
		}
	}
}
