package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"sluice.dev/apply/kapprules"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/yamlerr"
	"sluice.dev/report"
)

// The kinds of files that are understood.
const (
	kappVersion = "kapp.k14s.io/v1alpha1"
	ownVersion  = "sluice.dev/v1alpha1"
	kindConfig  = "Config"
)

// The preflights with something to configure: crdRule takes sluice's own keys, featureRule a mode, permissionRule kapp's one key.
const (
	crdRule        = "CRDUpgradeSafety"
	featureRule    = "FeatureGates"
	permissionRule = "PermissionValidation"
)

var (
	// preflights are the names of preflight rules, with whether they run where nobody names any.
	preflights = map[string]bool{crdRule: true, permissionRule: false, featureRule: false}
	// kappKeys are the keys of kapp's file that mean nothing to a check (carvel-dev/kapp pkg/kapp/config/config.go).
	kappKeys = []string{
		"minimumRequiredVersion", "ownershipLabelRules", "labelScopingRules", "templateRules", "diffMaskRules",
		"diffAgainstLastAppliedFieldExclusionRules", "diffAgainstExistingFieldExclusionRules", "additionalLabels",
	}
	// headKeys begin every document.
	headKeys = []string{"apiVersion", "kind", "metadata"}
)

// Preflights gives the names of the preflight rules, sorted.
func Preflights() []string { return slices.Sorted(maps.Keys(preflights)) }

// parser collects settings and all that is wrong with them.
type parser struct {
	config *Config
	// rules are the IDs that may be named.
	rules []string
	errs  []error
	notes []string
	// name is that of the file at hand.
	name string
	// line, where not 0, is that of the whole document in its source.
	line int
}

func newParser(rules []string) *parser {
	return &parser{
		config: &Config{levels: map[report.Level]value{}, rules: map[string]value{}, enabled: map[string]value{}},
		rules:  knownRules(rules),
	}
}

func (p *parser) configOrErrors() (*Config, []string, error) {
	if err := errors.Join(p.errs...); err != nil {
		return nil, p.notes, err
	}
	return p.config, p.notes, nil
}

func (p *parser) failNode(n *yaml.Node, format string, args ...any) {
	p.failAt(p.positionOf(n), format, args...)
}

func (p *parser) failAt(pos report.Position, format string, args ...any) {
	p.errs = append(p.errs, &Error{Position: pos, Msg: fmt.Sprintf(format, args...)})
}

func (p *parser) addNote(n *yaml.Node, format string, args ...any) {
	p.notes = append(p.notes, p.positionOf(n).Tell(fmt.Sprintf(format, args...)))
}

// positionOf is where a node stands. Of a document that came with a source only the line of its beginning is known.
func (p *parser) positionOf(n *yaml.Node) report.Position {
	if p.line != 0 {
		return report.Position{File: p.name, Line: p.line}
	}
	return report.Position{File: p.name, Line: n.Line, Column: n.Column}
}

// readFile reads the documents of one file.
func (p *parser) readFile(name string, data []byte) {
	p.name = name
	docs, err := yamlerr.Documents(data)
	if err != nil {
		line, msg := yamlerr.First(string(data))
		msg = cmp.Or(msg, strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", "; "))
		p.failAt(report.Position{File: name, Line: line}, "broken YAML: %s", msg)
		return
	}
	docs = slices.DeleteFunc(docs, func(d *yaml.Node) bool { return len(d.Content) != 1 || d.Content[0].Tag == "!!null" })
	if len(docs) == 0 {
		p.failAt(report.Position{File: name}, "empty; a configuration begins with apiVersion: %s (or %s) and kind: %s",
			ownVersion, kappVersion, kindConfig)
	}
	for _, d := range docs {
		p.readDocument(d.Content[0])
	}
}

// readDocument tells the kinds of files apart. One without apiVersion and kind is crdify's or Sluice's by its keys: so the suppression
// that a report prints can be a file as it is.
func (p *parser) readDocument(n *yaml.Node) {
	fields, ok := p.fieldsOf(n, "a configuration")
	if !ok {
		return
	}
	var api, kind string
	for _, f := range fields {
		switch f.name {
		case "apiVersion":
			api = f.value.Value
		case "kind":
			kind = f.value.Value
		}
	}
	switch {
	case api == "" && kind == "" && slices.ContainsFunc(fields, func(f field) bool { return slices.Contains(crdifyKeys, f.name) }):
		p.readCrdify(fields)
	case api == "" && kind == "" && slices.ContainsFunc(fields, func(f field) bool { return slices.Contains(ownKeys, f.name) }):
		p.readOwnKeys(fields) // such as a suppression that a report prints
	case kind != kindConfig:
		p.failNode(n, "kind is %s; a configuration has kind: %s and apiVersion: %s or %s, or neither and only Sluice's keys (%s), or is crdify's, with %s",
			shownText(kind), kindConfig, ownVersion, kappVersion, strings.Join(ownKeys, ", "), strings.Join(crdifyKeys, ", "))
	case api == ownVersion:
		p.readOwnKeys(fields, headKeys...)
	case api == kappVersion:
		p.readKapp(fields)
	default:
		p.failNode(n, "apiVersion is %s%s; a configuration has %s or %s", shownText(api),
			brief.Hint(api, []string{ownVersion, kappVersion}), ownVersion, kappVersion)
	}
}

func shownText(s string) string {
	if s == "" {
		return "missing"
	}
	return fmt.Sprintf("%q", s)
}

// field is one entry of a mapping.
type field struct {
	name       string
	key, value *yaml.Node
}

// fieldsOf returns the entries of a mapping in the order of the text, without those whose key stands there twice. what
// says what the mapping is, for the error where it is none.
func (p *parser) fieldsOf(n *yaml.Node, what string) ([]field, bool) {
	if n.Kind != yaml.MappingNode {
		p.failNode(n, "%s must be an object of keys and values, not %s", what, wordsFor(n))
		return nil, false
	}
	var out []field
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode {
			p.failNode(k, "a key must be a text, not %s", wordsFor(k))
			continue
		}
		if line, twice := seen[k.Value]; twice {
			p.failNode(k, "duplicate key %q, which stands at line %d already", k.Value, line)
			continue
		}
		seen[k.Value] = k.Line
		out = append(out, field{k.Value, k, n.Content[i+1]})
	}
	return out, true
}

// itemsOf returns the items of a list; none, with an error, where n is no list.
func (p *parser) itemsOf(f field, what string) []*yaml.Node {
	if f.value.Kind != yaml.SequenceNode {
		p.failNode(f.key, "%s must be a list of %s, not %s", f.name, what, wordsFor(f.value))
		return nil
	}
	return f.value.Content
}

// scalarText returns the scalar that f has; false, with an error, where it has none.
func (p *parser) scalarText(f field) (string, bool) {
	if f.value.Kind != yaml.ScalarNode || f.value.Tag == "!!null" {
		p.failNode(f.key, "%s must be a text, not %s", f.name, wordsFor(f.value))
		return "", false
	}
	return f.value.Value, true
}

// wordsFor says what n is.
func wordsFor(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias (*" + n.Value + "), which a configuration may not have"
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "empty"
		}
		return fmt.Sprintf("%q", n.Value)
	case yaml.DocumentNode:
	}
	return "nothing"
}

// failUnknown reports that the mapping what has no key f, and lists the keys that it has.
func (p *parser) failUnknown(f field, what string, keys []string) {
	p.failNode(f.key, "unknown key %q%s; the keys of %s are %s", f.name, brief.Hint(f.name, keys), what, strings.Join(keys, ", "))
}

// oneOf tells whether text is one of the allowed; otherwise it says so. name is what has that value.
func (p *parser) oneOf(pos report.Position, name, text string, allowed []string) bool {
	if slices.Contains(allowed, text) {
		return true
	}
	p.failAt(pos, "%s %q%s; allowed are %s", name, text, brief.Hint(text, allowed), strings.Join(allowed, ", "))
	return false
}

// readKapp reads kapp's file.
func (p *parser) readKapp(fields []field) {
	for _, f := range fields {
		switch {
		case slices.Contains(headKeys, f.name):
		case f.name == "preflightRules":
			p.preflightRules(f)
		case slices.Contains(kapprules.Keys(), f.name):
			p.applyRules(f)
		case slices.Contains(kappKeys, f.name):
			p.addNote(f.key, "%s is for kapp and means nothing here", f.name)
			p.noteUndone(f.key, f.name+" is not done")
		default:
			p.failUnknown(f, "kapp's configuration", slices.Concat([]string{"preflightRules"}, kapprules.Keys(), kappKeys))
		}
	}
}

// applyRules reads rules for an apply.
func (p *parser) applyRules(f field) {
	p.addNote(f.key, "%s is for sluice apply", f.name)
	var v any
	err := f.value.Decode(&v)
	var text []byte
	if err == nil {
		text, err = json.Marshal(v)
	}
	if err == nil {
		var notDone []string
		notDone, err = p.config.apply.Read(f.name, text)
		for _, why := range notDone {
			p.noteUndone(f.key, why)
		}
	}
	if err != nil {
		p.failNode(f.value, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// noteUndone remembers what an apply does not do.
func (p *parser) noteUndone(n *yaml.Node, why string) {
	p.config.notDone = append(p.config.notDone, p.positionOf(n).Tell(why))
}

// preflightRules reads kapp's list of preflights, of which those named run. Each may have a configuration of its own; that of
// CRDUpgradeSafety has all of Sluice's keys.
func (p *parser) preflightRules(list field) {
	items := p.itemsOf(list, "rules, each with a name")
	p.config.hasRules = true
	here := map[string]int{}
	for _, item := range items {
		fields, ok := p.fieldsOf(item, "a preflight rule")
		if !ok {
			continue
		}
		var name, config *field
		for _, f := range fields {
			switch f.name {
			case "name":
				name = &f
			case "config":
				config = &f
			default:
				p.failUnknown(f, "a preflight rule", []string{"name", "config"})
			}
		}
		if name == nil {
			p.failNode(item, "a preflight rule without a name; the names are %s", strings.Join(Preflights(), ", "))
			continue
		}
		id, ok := p.scalarText(*name)
		if !ok || !p.oneOf(p.positionOf(name.value), "preflight rule", id, Preflights()) {
			continue
		}
		if line, twice := here[id]; twice {
			p.failNode(name.value, "the preflight rule %s stands at line %d of this list already", id, line)
			continue
		}
		here[id] = name.value.Line
		p.config.enabled[id] = value{id, p.positionOf(name.value)}
		if config != nil && config.value.Tag != "!!null" {
			keys, ok := p.fieldsOf(config.value, "config of "+id)
			switch {
			case ok && id == crdRule:
				p.readOwnKeys(keys)
			case ok && id == featureRule:
				p.readFeatureGates(keys)
			case ok && id == permissionRule:
				p.readPermission(keys)
			}
		}
	}
}

// readPermission reads what the rule PermissionValidation takes.
func (p *parser) readPermission(keys []field) {
	const asked, listed = "SelfSubjectAccessReview", "SelfSubjectRulesReview"
	for _, f := range keys {
		if f.name != "permissionValidatorResource" {
			p.failUnknown(f, "config of "+permissionRule, []string{"permissionValidatorResource"})
			continue
		}
		text, ok := p.scalarText(f)
		if ok && p.oneOf(p.positionOf(f.value), f.name, text, []string{asked, listed}) && text == listed {
			p.addNote(f.key, "each access is asked for by a %s", asked)
			p.noteUndone(f.key, listed+" is not used: each access is asked for by a "+asked)
		}
	}
}

// readFeatureGates reads what the rule FeatureGates takes.
func (p *parser) readFeatureGates(keys []field) {
	for _, f := range keys {
		if f.name == "mode" {
			p.setChoice(f, modes, &p.config.featureMode)
			continue
		}
		p.failUnknown(f, "config of "+featureRule, []string{"mode"})
	}
}
