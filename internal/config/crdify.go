package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"sluice.dev/report"
)

// A file of crdify is read as it is, so that a team can change tools without changing its configuration. Each validation of crdify
// stands for rules of Sluice: pattern: Warn gives pattern-added and pattern-changed the severity warn. What has no counterpart is
// told.

// crdifyValidation is what Sluice has for a validation of crdify's.
type crdifyValidation struct {
	// rules get the severity of the enforcement.
	rules []string
	// policies are the keys of its configuration, each with the rule that Allow turns off; empty where Sluice has none.
	policies map[string]string
	// lacks says why there are no rules.
	lacks string
}

// crdifyValidations has each validation by its name (kubernetes-sigs/crdify pkg/runner/registry.go).
var crdifyValidations = map[string]crdifyValidation{
	"scope":                {rules: []string{"scope-changed"}},
	"existingFieldRemoval": {rules: []string{"property-removed"}},
	"storedVersionRemoval": {rules: []string{"stored-version-removed"}},
	"default":              {rules: []string{"default-added", "default-changed", "default-removed"}},
	"enum": {
		rules:    []string{"enum-added", "enum-removed", "enum-value-added", "enum-value-removed"},
		policies: map[string]string{"additionPolicy": "enum-value-added"},
	},
	"maximum":       {rules: []string{"maximum-lowered"}},
	"maxItems":      {rules: []string{"max-items-lowered"}},
	"maxLength":     {rules: []string{"max-length-lowered"}},
	"maxProperties": {rules: []string{"max-properties-lowered"}},
	"minimum":       {rules: []string{"minimum-raised"}},
	"minItems":      {rules: []string{"min-items-raised"}},
	"minLength":     {rules: []string{"min-length-raised"}},
	"minProperties": {rules: []string{"min-properties-raised"}},
	"required":      {rules: []string{"required-added"}},
	"type":          {rules: []string{"type-added", "type-changed", "type-narrowed", "type-widened"}},
	"description":   {lacks: "a description decides nothing about objects"},
	"pattern": {
		rules:    []string{"pattern-added", "pattern-changed"},
		policies: map[string]string{"removalPolicy": ""},
	},
	"nullable": {
		rules:    []string{"nullable-added", "nullable-removed"},
		policies: map[string]string{"additionPolicy": "nullable-added", "removalPolicy": "nullable-removed"},
	},
}

// What is allowed in crdify's file (pkg/config/config.go).
var (
	crdifyKeys         = []string{"validations", "unhandledEnforcement", "conversion"}
	crdifyRuleKeys     = []string{"name", "enforcement", "configuration"}
	crdifyEnforcements = []string{"Error", "Warn", "None"}
	crdifyConversions  = []string{"None", "Ignore"}
	crdifyPolicies     = []string{"Allow", "Disallow"}

	crdifySeverities = map[string]report.Severity{"Error": report.Fail, "Warn": report.Warn, "None": report.Off}
	crdifyFailModes  = map[string]string{"Error": FailClosed, "Warn": FailOpen, "None": FailOpen}
)

// CrdifyValidations gives the names of crdify's validations, sorted.
func CrdifyValidations() []string { return slices.Sorted(maps.Keys(crdifyValidations)) }

// readCrdify reads crdify's file, which has neither apiVersion nor kind. What the file leaves out keeps Sluice's defaults.
func (p *parser) readCrdify(fields []field) {
	for _, f := range fields {
		switch f.name {
		case "validations":
			here := map[string]int{}
			for i, item := range p.itemsOf(f, "validations, each with a name and an enforcement") {
				p.crdifyValidation(item, fmt.Sprintf("validations[%d]", i), here)
			}
		case "unhandledEnforcement":
			if text, ok := p.allowedWord(f, f.name, crdifyEnforcements); ok {
				p.putValue(f.value, "failMode", crdifyFailModes[text], &p.config.failMode)
				if text == "None" {
					p.noteUnmatched(f.value, "unhandledEnforcement None: undecided changes are still reported, as warnings")
				}
			}
		case "conversion":
			if text, ok := p.allowedWord(f, f.name, crdifyConversions); ok && text == "None" {
				p.noteUnmatched(f.value, "conversion None: where a webhook converts between versions, they are not compared with each other")
			}
		default:
			p.failUnknown(f, "crdify's configuration", crdifyKeys)
		}
	}
}

// crdifyValidation reads one item of the list, which stands at path. here has the lines of those before it.
func (p *parser) crdifyValidation(item *yaml.Node, path string, here map[string]int) {
	fields, ok := p.fieldsOf(item, path)
	if !ok {
		return
	}
	has := map[string]field{}
	for _, f := range fields {
		if !slices.Contains(crdifyRuleKeys, f.name) {
			p.failUnknown(f, path, crdifyRuleKeys)
			return
		}
		has[f.name] = f
	}
	needed := func(key string, allowed []string) string {
		f, ok := has[key]
		if !ok {
			p.failNode(item, "%s has no %s; allowed are %s", path, key, strings.Join(allowed, ", "))
			return ""
		}
		if text, ok := p.allowedWord(f, path+"."+key, allowed); ok {
			return text
		}
		return ""
	}
	name, enforcement := needed("name", CrdifyValidations()), needed("enforcement", crdifyEnforcements)
	if name == "" || enforcement == "" {
		return
	}
	if line, twice := here[name]; twice {
		p.failNode(item, "%s: the validation %s stands at line %d already", path, name, line)
		return
	}
	here[name] = item.Line
	v := crdifyValidations[name]
	off := map[string]bool{}
	if c, ok := has["configuration"]; ok && c.value.Tag != "!!null" {
		p.crdifyPolicies(c, v, path+".configuration", off)
	}
	if v.lacks != "" {
		p.noteUnmatched(item, "the validation %s has no rule: %s", name, v.lacks)
	}
	for _, rule := range v.rules {
		to := p.config.rules[rule]
		severity := crdifySeverities[enforcement]
		if off[rule] {
			severity = report.Off
		}
		p.putValue(item, "rule "+rule, string(severity), &to)
		p.config.rules[rule] = to
	}
}

// crdifyPolicies reads the configuration of a validation and puts the rules that it turns off into off.
func (p *parser) crdifyPolicies(c field, v crdifyValidation, path string, off map[string]bool) {
	fields, ok := p.fieldsOf(c.value, path)
	if !ok {
		return
	}
	for _, f := range fields {
		rule, ok := v.policies[f.name]
		if !ok && len(v.policies) == 0 {
			p.failNode(f.key, "unknown key %q; %s has no keys", f.name, path)
			continue
		}
		if !ok {
			p.failUnknown(f, path, slices.Sorted(maps.Keys(v.policies)))
			continue
		}
		switch text, ok := p.allowedWord(f, path+"."+f.name, crdifyPolicies); {
		case ok && rule == "" && text == "Disallow":
			p.noteUnmatched(f.key, "%s.%s Disallow has no rule: what is removed refuses nothing any more", path, f.name)
		case ok && text == "Allow":
			off[rule] = true
		}
	}
}

// allowedWord returns the text of a field that has one of the allowed; false, with an error, where it has none. path is its place.
func (p *parser) allowedWord(f field, path string, allowed []string) (string, bool) {
	text, ok := p.scalarText(f)
	return text, ok && p.oneOf(p.positionOf(f.value), path, text, allowed)
}

// noteUnmatched remembers what of crdify's configuration Sluice has nothing for.
func (p *parser) noteUnmatched(n *yaml.Node, format string, args ...any) {
	p.config.unmatched = append(p.config.unmatched, p.positionOf(n).Tell(fmt.Sprintf(format, args...)))
}
