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

// What is allowed for the settings that have few values.
var (
	modes      = []string{ModeError, ModeWarn}
	crdModes   = []string{ModeError, ModeWarn, ModeStored}
	failModes  = []string{FailClosed, FailOpen}
	severities = []string{string(report.Fail), string(report.Warn), string(report.Off)}
)

var (
	// ownKeys are sluice's keys.
	ownKeys         = []string{"mode", "failMode", "kubeVersion", "levels", "rules", "suppressions"}
	suppressionKeys = []string{"rule", "crd", "version", "path", "reason", "expires"}
)

var kubeVersion = regexp.MustCompile(`^v?1\.[0-9]{1,3}(\.[0-9]{1,3})?$`)

// own reads sluice's keys. besides are keys that may stand there too.
func (p *parser) own(fields []field, besides ...string) {
	for _, f := range fields {
		switch {
		case slices.Contains(besides, f.name):
		case f.name == "mode":
			p.choice(f, crdModes, &p.config.mode)
		case f.name == "failMode":
			p.choice(f, failModes, &p.config.failMode)
		case f.name == "kubeVersion":
			p.kubeVersion(f)
		case f.name == "levels":
			p.levels(f)
		case f.name == "rules":
			p.ruleSeverities(f)
		case f.name == "suppressions":
			for _, item := range p.items(f, "suppressions, each with a rule or a crd, and a reason") {
				p.suppression(item)
			}
		default:
			p.unknown(f, "sluice's configuration", ownKeys)
		}
	}
}

// choice makes a setting that has one of the allowed values.
func (p *parser) choice(f field, allowed []string, to *value) {
	if text, ok := p.text(f); ok && p.oneOf(p.at(f.value), f.name, text, allowed) {
		p.set(f, f.name, to)
	}
}

// set makes a setting, which may be made again alike.
func (p *parser) set(f field, name string, to *value) {
	p.put(f.value, name, f.value.Value, to)
}

// put makes a setting that stands at n.
func (p *parser) put(n *yaml.Node, name, text string, to *value) {
	if to.text != "" && to.text != text {
		p.fail(n, "%s is %s here, but %s at %s:%d", name, text, to.text, to.pos.File, to.pos.Line)
		return
	}
	*to = value{text, p.at(n)}
}

func (p *parser) kubeVersion(f field) {
	text, ok := p.text(f)
	if !ok {
		return
	}
	if !kubeVersion.MatchString(text) {
		p.fail(f.value, "kubeVersion %q; allowed are versions such as 1.29 or v1.29.3", text)
		return
	}
	p.set(f, f.name, &p.config.kubeVersion)
}

func (p *parser) levels(list field) {
	fields, ok := p.fields(list.value, "levels")
	if !ok {
		return
	}
	var names []string
	for _, l := range report.Levels() {
		names = append(names, string(l.ID))
	}
	for _, f := range fields {
		if !slices.Contains(names, f.name) {
			p.fail(f.key, "unknown level %q%s; the levels are %s", f.name, brief.Hint(f.name, names), strings.Join(names, ", "))
			continue
		}
		v := p.config.levels[report.Level(f.name)]
		p.choice(f, severities, &v)
		p.config.levels[report.Level(f.name)] = v
	}
}

func (p *parser) ruleSeverities(list field) {
	fields, ok := p.fields(list.value, "rules")
	if !ok {
		return
	}
	for _, f := range fields {
		if !p.knownRule(f.key, f.name) {
			continue
		}
		v := p.config.rules[f.name]
		p.choice(f, severities, &v)
		p.config.rules[f.name] = v
	}
}

// knownRule tells whether there is a rule with that ID; otherwise it says so.
func (p *parser) knownRule(n *yaml.Node, id string) bool {
	if slices.Contains(p.rules, id) {
		return true
	}
	p.fail(n, "unknown rule %q%s; sluice rules lists them", id, brief.Hint(id, p.rules))
	return false
}

func (p *parser) suppression(item *yaml.Node) {
	fields, ok := p.fields(item, "a suppression")
	if !ok {
		return
	}
	s := suppression{pos: p.at(item)}
	whole := true
	for _, f := range fields {
		if !slices.Contains(suppressionKeys, f.name) {
			p.unknown(f, "a suppression", suppressionKeys)
			continue
		}
		text, ok := p.text(f)
		if ok && strings.TrimSpace(text) == "" {
			p.fail(f.key, "%s must not be empty", f.name)
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
	if s.rule.text == "" && s.crd.text == "" {
		p.fail(item, "a suppression must name a rule, a crd, or both")
	}
	if s.reason == "" {
		p.fail(item, "a suppression must give its reason")
	}
	if s.expires == "" {
		p.note(item, "a suppression without a date (expires: YYYY-MM-DD) stays for ever")
	}
	p.config.suppressions = append(p.config.suppressions, s)
}

// suppressionField sets one field of s. It returns false, with an error, where the text does not do.
func (p *parser) suppressionField(s *suppression, f field, text string) bool {
	switch f.name {
	case "rule":
		s.rule = newMatcher(text, "")
		if strings.Contains(text, "*") {
			if !slices.ContainsFunc(p.rules, s.rule.matches) {
				p.fail(f.value, "no rule matches %q; sluice rules lists them", text)
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
			p.fail(f.value, "expires %q; allowed are dates of the form YYYY-MM-DD", text)
			return false
		}
		s.expires = text
	}
	return true
}
