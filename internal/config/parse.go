package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"sluice.dev/report"
)

// The kinds of files that are understood.
const (
	kappAPIVersion = "kapp.k14s.io/v1alpha1"
	ownAPIVersion  = "sluice.dev/v1alpha1"
	kindConfig     = "Config"
)

// crdRule is the preflight that this build runs.
const crdRule = "CRDUpgradeSafety"

// preflights are the names of preflight rules, and whether this build runs each.
var preflights = map[string]bool{crdRule: true, "PermissionValidation": false, "FeatureGates": false}

// kappKeys are the other keys of kapp's file (carvel-dev/kapp pkg/kapp/config, Config). They mean nothing to a check.
var kappKeys = []string{
	"minimumRequiredVersion", "rebaseRules", "waitRules", "ownershipLabelRules", "labelScopingRules", "templateRules",
	"diffMaskRules", "diffAgainstLastAppliedFieldExclusionRules", "diffAgainstExistingFieldExclusionRules",
	"additionalLabels", "changeGroupBindings", "changeRuleBindings",
}

// parser collects settings and everything that is wrong with them.
type parser struct {
	config *Config
	rules  []string
	errs   []error
	notes  []string
	name   string // of the file
}

func (p *parser) fail(n *yaml.Node, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %s", p.name, n.Line, fmt.Sprintf(format, args...)))
}

func (p *parser) at(n *yaml.Node) report.Position {
	return report.Position{File: p.name, Line: n.Line, Column: n.Column}
}

func (p *parser) file(name string, data []byte) {
	p.name = name
	dec := yaml.NewDecoder(bytes.NewReader(data))
	found := false
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.errs = append(p.errs, fmt.Errorf("%s: not valid YAML: %s", name, strings.TrimPrefix(err.Error(), "yaml: ")))
			return
		}
		if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
			continue
		}
		found = true
		p.document(doc.Content[0])
	}
	if !found {
		p.errs = append(p.errs, fmt.Errorf("%s: empty; a configuration begins with apiVersion: %s (or %s) and kind: %s", name, ownAPIVersion, kappAPIVersion, kindConfig))
	}
}

func (p *parser) document(n *yaml.Node) {
	fields := p.fields(n, "a configuration")
	api, kind := fields["apiVersion"], fields["kind"]
	switch {
	case fields == nil:
	case kind == nil || kind.Value != kindConfig:
		p.fail(n, "kind is %s; want kind: %s", shown(kind), kindConfig)
	case api == nil || api.Value != kappAPIVersion && api.Value != ownAPIVersion:
		p.fail(n, "apiVersion is %s; want %s or %s", shown(api), ownAPIVersion, kappAPIVersion)
	case api.Value == ownAPIVersion:
		p.own(fields, "apiVersion", "kind", "metadata")
	default:
		p.kapp(fields)
	}
}

func shown(n *yaml.Node) string {
	if n == nil {
		return "missing"
	}
	return fmt.Sprintf("%q", n.Value)
}

// fields returns the keys of a mapping; nil and an error noted where it is none.
func (p *parser) fields(n *yaml.Node, what string) map[string]*yaml.Node {
	if n.Kind == yaml.AliasNode {
		p.fail(n, "aliases are not allowed here")
		return nil
	}
	if n.Kind != yaml.MappingNode {
		p.fail(n, "%s has to be a mapping of keys to values", what)
		return nil
	}
	out := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if _, twice := out[k.Value]; twice {
			p.fail(k, "key %q stands here twice", k.Value)
		}
		out[k.Value] = n.Content[i+1]
	}
	return out
}

func (p *parser) kapp(fields map[string]*yaml.Node) {
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		n := fields[k]
		switch {
		case k == "apiVersion" || k == "kind" || k == "metadata":
		case k == "preflightRules":
			p.preflightRules(n)
		case slices.Contains(kappKeys, k):
			p.notes = append(p.notes, fmt.Sprintf("%s:%d: %s is for kapp and has no meaning here", p.name, n.Line, k))
		default:
			p.fail(n, "unknown key %q%s; kapp's keys are preflightRules, %s", k, nearest(k, append(kappKeys, "preflightRules")), strings.Join(kappKeys, ", "))
		}
	}
}

func (p *parser) preflightRules(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		p.fail(n, "preflightRules has to be a list of rules, each with a name")
		return
	}
	p.config.hasRules = true
	names := slices.Sorted(maps.Keys(preflights))
	for _, item := range n.Content {
		fields := p.fields(item, "a preflight rule")
		if fields == nil {
			continue
		}
		p.only(fields, "name", "config")
		name := fields["name"]
		if name == nil {
			p.fail(item, "a preflight rule without a name; the names are %s", strings.Join(names, ", "))
			continue
		}
		runs, known := preflights[name.Value]
		switch {
		case !known:
			p.fail(name, "unknown preflight rule %q%s; the names are %s", name.Value, nearest(name.Value, names), strings.Join(names, ", "))
			continue
		case !runs:
			p.fail(name, "this build does not run the preflight rule %s yet; it runs %s", name.Value, crdRule)
			continue
		}
		if _, twice := p.config.enabled[name.Value]; twice {
			p.fail(name, "the preflight rule %s is configured twice", name.Value)
		}
		p.config.enabled[name.Value] = value{name.Value, p.at(name)}
		if cfg := fields["config"]; cfg != nil {
			if keys := p.fields(cfg, "config"); keys != nil {
				p.own(keys)
			}
		}
	}
}

// only notes keys that are none of the allowed.
func (p *parser) only(fields map[string]*yaml.Node, allowed ...string) {
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(allowed, k) {
			p.fail(fields[k], "unknown key %q%s; the keys are %s", k, nearest(k, allowed), strings.Join(allowed, ", "))
		}
	}
}

// ownKeys are sluice's keys.
var ownKeys = []string{"mode", "failMode", "kubeVersion", "levels", "rules", "suppressions"}

func (p *parser) own(fields map[string]*yaml.Node, besides ...string) {
	p.only(fields, append(slices.Clone(ownKeys), besides...)...)
	if n := fields["mode"]; n != nil && p.oneOf(p.at(n), "mode", n.Value, ModeError, ModeWarn) {
		p.set(n, "mode", &p.config.mode)
	}
	if n := fields["failMode"]; n != nil && p.oneOf(p.at(n), "failMode", n.Value, FailClosed, FailOpen) {
		p.set(n, "failMode", &p.config.failMode)
	}
	if n := fields["kubeVersion"]; n != nil {
		if !kubeVersion.MatchString(n.Value) {
			p.fail(n, "kubeVersion %q is no version such as \"1.29\"", n.Value)
		}
		p.set(n, "kubeVersion", &p.config.kubeVersion)
	}
	p.levels(fields["levels"])
	p.severities(fields["rules"])
	p.suppressions(fields["suppressions"])
}

var kubeVersion = regexp.MustCompile(`^v?1\.[0-9]{1,3}(\.[0-9]+)?$`)

// set makes a setting that may be made only once, or alike.
func (p *parser) set(n *yaml.Node, name string, v *value) {
	if v.text != "" && v.text != n.Value {
		p.fail(n, "%s is %s here and %s at %s:%d", name, n.Value, v.text, v.pos.File, v.pos.Line)
	}
	*v = value{n.Value, p.at(n)}
}

func (p *parser) oneOf(pos report.Position, name, text string, allowed ...string) bool {
	if slices.Contains(allowed, text) {
		return true
	}
	where := ""
	if pos.File != "" {
		where = fmt.Sprintf("%s:%d: ", pos.File, pos.Line)
	}
	p.errs = append(p.errs, fmt.Errorf("%s%s %q%s; allowed are %s", where, name, text, nearest(text, allowed), strings.Join(allowed, ", ")))
	return false
}

var severities = []string{string(report.Fail), string(report.Warn), string(report.Off)}

func (p *parser) levels(n *yaml.Node) {
	if n == nil {
		return
	}
	var names []string
	for _, l := range report.Levels() {
		names = append(names, string(l.ID))
	}
	fields := p.fields(n, "levels")
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		v := fields[k]
		if !slices.Contains(names, k) {
			p.fail(v, "unknown level %q%s; the levels are %s", k, nearest(k, names), strings.Join(names, ", "))
			continue
		}
		if p.oneOf(p.at(v), "level "+k, v.Value, severities...) {
			s := p.config.levels[report.Level(k)]
			p.set(v, "level "+k, &s)
			p.config.levels[report.Level(k)] = s
		}
	}
}

func (p *parser) severities(n *yaml.Node) {
	if n == nil {
		return
	}
	fields := p.fields(n, "rules")
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		v := fields[k]
		if !slices.Contains(p.rules, k) {
			p.fail(v, "unknown rule %q%s; sluice rules lists them", k, nearest(k, p.rules))
			continue
		}
		if p.oneOf(p.at(v), "rule "+k, v.Value, severities...) {
			s := p.config.rules[k]
			p.set(v, "rule "+k, &s)
			p.config.rules[k] = s
		}
	}
}

func (p *parser) suppressions(n *yaml.Node) {
	if n == nil {
		return
	}
	if n.Kind != yaml.SequenceNode {
		p.fail(n, "suppressions has to be a list")
		return
	}
	for _, item := range n.Content {
		fields := p.fields(item, "a suppression")
		if fields == nil {
			continue
		}
		p.only(fields, "rule", "crd", "version", "path", "reason", "expires")
		s := suppression{pos: p.at(item)}
		for key, to := range map[string]*string{
			"rule": &s.rule, "crd": &s.crd, "version": &s.version, "path": &s.path, "reason": &s.reason, "expires": &s.expires,
		} {
			if v := fields[key]; v != nil {
				*to = v.Value
				if strings.Count(v.Value, "*") > 8 && key != "reason" {
					p.fail(v, "%s %q: a pattern has at most 8 stars", key, v.Value)
				}
			}
		}
		if s.rule == "" && s.crd == "" {
			p.fail(item, "a suppression names a rule, a crd, or both")
		}
		if s.rule != "" && !strings.Contains(s.rule, "*") && !slices.Contains(p.rules, s.rule) {
			p.fail(fields["rule"], "unknown rule %q%s; sluice rules lists them", s.rule, nearest(s.rule, p.rules))
		}
		if strings.TrimSpace(s.reason) == "" {
			p.fail(item, "a suppression needs a reason")
		}
		if s.expires == "" {
			p.notes = append(p.notes, fmt.Sprintf("%s:%d: a suppression without an expiry date (expires: YYYY-MM-DD) stays for ever", p.name, item.Line))
		} else if _, err := time.Parse(time.DateOnly, s.expires); err != nil {
			p.fail(fields["expires"], "expires %q is no date of the form YYYY-MM-DD", s.expires)
		}
		p.config.suppressions = append(p.config.suppressions, s)
	}
}

// nearest suggests the most similar of the names.
func nearest(s string, names []string) string {
	best, at := 4, ""
	for _, n := range names {
		if d := distance(strings.ToLower(s), strings.ToLower(n)); d < best {
			best, at = d, n
		}
	}
	if at == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", at)
}

// distance is the number of edits between two short strings.
func distance(a, b string) int {
	if len(a) > 100 || len(b) > 100 {
		return 100
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := min(row[j]+1, row[j+1]+1)
			if a[i] == b[j] {
				next = min(next, diagonal)
			} else {
				next = min(next, diagonal+1)
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
