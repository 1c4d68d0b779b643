package config

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
)

// This file reads Sluice's own keys, which stand in a file of their own, below config of the rule CRDUpgradeSafety, or in a Delivery.
// All errors are collected, each with the line and the nearest name: whoever corrects a file sees all of them at once.

// What is allowed for the settings that have few values.
var (
	modes      = []string{ModeError, ModeWarn}
	crdModes   = []string{ModeError, ModeWarn, ModeStored}
	failModes  = []string{FailClosed, FailOpen}
	severities = []string{string(report.Fail), string(report.Warn), string(report.Off)}
)

var (
	// ownKeys are sluice's keys.
	ownKeys         = []string{"mode", "failMode", "kubeVersion", "levels", "rules", "suppressions", "allowLoss"}
	suppressionKeys = []string{"rule", "crd", "version", "path", "reason", "expires"}
	lossKeys        = suppressionKeys[1:]
)

var kubeVersion = regexp.MustCompile(`^v?1\.[0-9]{1,3}(\.[0-9]{1,3})?$`)

// readOwnKeys reads sluice's keys. besides are keys that may stand there too.
func (p *parser) readOwnKeys(fields []field, besides ...string) {
	for _, f := range fields {
		switch {
		case slices.Contains(besides, f.name):
		case f.name == "mode":
			p.setChoice(f, crdModes, &p.config.mode)
		case f.name == "failMode":
			p.setChoice(f, failModes, &p.config.failMode)
		case f.name == "kubeVersion":
			p.kubeVersion(f)
		case f.name == "levels":
			p.readLevels(f)
		case f.name == "rules":
			p.ruleSeverities(f)
		case f.name == "suppressions":
			for _, item := range p.itemsOf(f, "suppressions, each with a rule or a crd, and a reason") {
				p.readSuppression(item, "a suppression", suppressionKeys, suppression{}, &p.config.suppressions)
			}
		case f.name == "allowLoss":
			for _, item := range p.itemsOf(f, "deliberate losses of conversions, each with a crd or a path, and a reason") {
				p.readSuppression(item, "a deliberate loss", lossKeys, suppression{rule: newMatcher(lossRules, "")}, &p.config.losses)
			}
		default:
			p.failUnknown(f, "sluice's configuration", ownKeys)
		}
	}
}

// setChoice makes a setting that has one of the allowed values.
func (p *parser) setChoice(f field, allowed []string, to *value) {
	if text, ok := p.scalarText(f); ok && p.oneOf(p.positionOf(f.value), f.name, text, allowed) {
		p.setField(f, f.name, to)
	}
}

// setField makes a setting, which may be made again alike.
func (p *parser) setField(f field, name string, to *value) {
	p.putValue(f.value, name, f.value.Value, to)
}

// putValue makes a setting that stands at n.
func (p *parser) putValue(n *yaml.Node, name, text string, to *value) {
	if to.text != "" && to.text != text {
		p.failNode(n, "%s is %s here, but %s at %s:%d", name, text, to.text, to.pos.File, to.pos.Line)
		return
	}
	*to = value{text, p.positionOf(n)}
}

// kubeVersion reads a version of Kubernetes, which chooses the rules of the API server that hold.
func (p *parser) kubeVersion(f field) {
	text, ok := p.scalarText(f)
	if !ok {
		return
	}
	if !kubeVersion.MatchString(text) {
		p.failNode(f.value, "kubeVersion %q; allowed are versions such as 1.29 or v1.29.3", text)
		return
	}
	p.setField(f, f.name, &p.config.kubeVersion)
}

// readLevels reads the severities of levels of harm.
func (p *parser) readLevels(list field) {
	var names []string
	for _, l := range report.Levels() {
		names = append(names, string(l.ID))
	}
	readSeverities(p, list, p.config.levels, func(f field) bool {
		if slices.Contains(names, f.name) {
			return true
		}
		p.failNode(f.key, "unknown level %q%s; the levels are %s", f.name, brief.Hint(f.name, names), strings.Join(names, ", "))
		return false
	})
}

func (p *parser) ruleSeverities(list field) {
	readSeverities(p, list, p.config.rules, func(f field) bool { return p.knownRule(f.key, f.name) })
}

// readSeverities reads the severities of levels or rules into a map.
func readSeverities[K ~string](p *parser, list field, into map[K]value, known func(field) bool) {
	fields, ok := p.fieldsOf(list.value, list.name)
	if !ok {
		return
	}
	for _, f := range fields {
		if known(f) {
			v := into[K(f.name)]
			p.setChoice(f, severities, &v)
			into[K(f.name)] = v
		}
	}
}

// knownRule tells whether there is a rule with that ID; otherwise it says so.
func (p *parser) knownRule(n *yaml.Node, id string) bool {
	if slices.Contains(p.rules, id) {
		return true
	}
	p.failNode(n, "unknown rule %q%s; sluice rules lists them", id, brief.Hint(id, p.rules))
	return false
}

// readSuppression reads what noun names, which has the keys, and adds it to a list. s has what it does not name itself.
func (p *parser) readSuppression(item *yaml.Node, noun string, keys []string, s suppression, to *[]suppression) {
	fields, ok := p.fieldsOf(item, noun)
	if !ok {
		return
	}
	s.pos = p.positionOf(item)
	byRule := s.rule.text == ""
	whole := true
	for _, f := range fields {
		if !slices.Contains(keys, f.name) {
			p.failUnknown(f, noun, keys)
			continue
		}
		text, ok := p.scalarText(f)
		if ok && strings.TrimSpace(text) == "" {
			p.failNode(f.key, "%s must not be empty", f.name)
			ok = false
		}
		if !ok {
			whole = false
			continue
		}
		whole = p.suppressionField(&s, f, text) && whole
	}
	if !whole {
		return
	}
	switch {
	case s.crd.text != "" || s.path.text != "":
	case !byRule:
		p.failNode(item, "%s must name a crd or a path", noun)
	case s.rule.text == "":
		p.failNode(item, "%s must name a rule, a crd or a path", noun)
	}
	if s.reason == "" {
		p.failNode(item, "%s must give its reason", noun)
	}
	if s.expires == "" {
		p.addNote(item, "%s without a date (expires: YYYY-MM-DD) stays for ever", noun)
	}
	*to = append(*to, s)
}

// suppressionField sets one field of s. It returns false, with an error, where the text does not do.
func (p *parser) suppressionField(s *suppression, f field, text string) bool {
	switch f.name {
	case "rule":
		s.rule = newMatcher(text, "")
		if strings.Contains(text, "*") {
			if !slices.ContainsFunc(p.rules, s.rule.matchesText) {
				p.failNode(f.value, "no rule matches %q; sluice rules lists them", text)
				return false
			}
			return true
		}
		return p.knownRule(f.value, text)
	case "crd":
		s.crd = newMatcher(text, ".")
	case "version":
		s.version = newMatcher(text, "")
	case "path":
		if !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "[") && !strings.HasPrefix(text, "*") {
			text = "." + text
		}
		s.path = newMatcher(text, ".[")
	case "reason":
		s.reason = strings.Join(strings.Fields(text), " ")
	case "expires":
		if _, err := time.Parse(time.DateOnly, text); err != nil {
			p.failNode(f.value, "expires %q; allowed are dates of the form YYYY-MM-DD", text)
			return false
		}
		s.expires = text
	}
	return true
}
