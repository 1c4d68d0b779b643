// Package config reads the configuration of checks and applies it to a report.
//
// It understands kapp's file (apiVersion kapp.k14s.io/v1alpha1, kind Config), of which it reads preflightRules, crdify's
// (without apiVersion and kind), and sluice's own (apiVersion sluice.dev/v1alpha1, kind Config). Sluice's own keys stand in its file, or under config of the
// rule CRDUpgradeSafety in kapp's: mode, failMode, kubeVersion, levels, rules, suppressions and allowLoss. Several documents and
// several files add up; settings that contradict each other are an error, and flags win over files.
//
// It promises to refuse what it does not know, with all errors at once, each with file and line, what is allowed, and
// the nearest name. It does not look for files, and it does not decide what is harmful: that is package compat's work.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"sluice.dev/apply/kapprules"
	"sluice.dev/internal/limit"
	"sluice.dev/report"
)

// Modes and fail modes, as kapp names them.
const (
	// ModeError lets findings fail the check, ModeWarn never.
	ModeError = "error"
	ModeWarn  = "warn"
	// ModeStored lets only those fail that stored objects bear out, where these can be read. It is Sluice's own.
	ModeStored = "stored"
	// FailClosed lets changes fail of which neither safety nor harm could be shown, FailOpen lets them pass with a warning.
	FailClosed = "closed"
	FailOpen   = "open"
)

// The IDs of the findings that speak of the configuration itself.
const (
	// RuleExpired is a violation: a suppression whose date has passed.
	RuleExpired = "suppression-expired"
	// RuleUnused is a note: a suppression that no finding matches.
	RuleUnused = "suppression-unused"
)

// lossRules matches the rules about values that a conversion loses.
const lossRules = "conversion-loses-*"

// Config is what holds for a run. Its zero value has the defaults: mode error, fail mode closed, the levels' own
// severities, no suppressions. It is not changed by use.
type Config struct {
	mode, failMode, kubeVersion value
	// featureMode is the mode of FeatureGates.
	featureMode  value
	levels       map[report.Level]value
	rules        map[string]value
	suppressions []suppression
	// losses are the deliberate losses of conversions.
	losses []suppression
	// enabled has the preflight rules that the files name; hasRules says that they name any list of them.
	enabled  map[string]value
	hasRules bool
	// apply are the rules for an apply, and notDone what of them is not done.
	apply   kapprules.Rules
	notDone []string
	// unmatched is what of crdify's configuration Sluice has nothing for.
	unmatched []string
}

// ForConversions returns the configuration for a report about conversions: deliberate losses are suppressed there. Of the suppressions it
// keeps those that match one of the rules about conversions.
func (c *Config) ForConversions(rules []string) *Config {
	out := *c
	out.suppressions = slices.Clone(c.losses)
	for _, s := range c.suppressions {
		if slices.ContainsFunc(rules, s.rule.matchesText) {
			out.suppressions = append(out.suppressions, s)
		}
	}
	return &out
}

// ApplyRules are the rules of kapp's configuration for an apply.
func (c *Config) ApplyRules() kapprules.Rules { return c.apply }

// NotDone has a sentence, with its place, for all of kapp's and crdify's configuration that an apply does not do.
func (c *Config) NotDone() []string { return slices.Concat(c.notDone, c.unmatched) }

// Unmatched has a sentence, with its place, for all of crdify's configuration that Sluice has nothing for.
func (c *Config) Unmatched() []string { return c.unmatched }

// value is a setting and where it was made; empty text means that it was not made.
type value struct {
	text string
	pos  report.Position
}

// Options say what is loaded.
type Options struct {
	// Files are read in order. Settings that contradict each other are an error.
	Files []string
	// Documents are configurations that came with a source. Their preflight rules count as well.
	Documents []Document
	// Mode and FailMode come from the command line and win over the files; empty means not given.
	Mode, FailMode string
	// Rules are the IDs of the rules that exist.
	Rules []string
	// Preflights come from the command line and win over what the files name; nil means not given, an empty list that none
	// runs.
	Preflights []string
}

// Document is a configuration that was read elsewhere.
type Document struct {
	// Name and Line say where it begins; Line may be 0.
	Name string
	Line int
	Data []byte
}

// IsKapp tells whether an object is a configuration of kapp's.
func IsKapp(apiVersion, kind string) bool { return apiVersion == kappVersion && kind == kindConfig }

// maxFile is the size that a configuration file may have.
const maxFile = 4 << 20

// Error is one thing that is wrong, in one line.
type Error struct {
	// Position is the place; for an error in a flag it is zero.
	Position report.Position
	// Msg says what is wrong and what is allowed.
	Msg string
	// Err is what the system said; it may be nil, and is not part of the text.
	Err error
}

// Error implements error: FILE:LINE: MSG.
func (e *Error) Error() string { return e.Position.Tell(e.Msg) }

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// Load reads the files. The notes, one line each, tell what is read but has no effect or deserves a thought: keys of
// kapp's file that mean nothing to a check, suppressions without an expiry date. The error joins all that is wrong, each
// of type [*Error], in the order of the files and of the text.
func Load(o Options) (*Config, []string, error) {
	p := newParser(o.Rules)
	for _, f := range o.Files {
		data, err := readFile(f)
		if err != nil {
			p.errs = append(p.errs, err)
			continue
		}
		p.readFile(f, data)
	}
	for _, d := range o.Documents {
		p.line = d.Line
		p.readFile(d.Name, d.Data)
	}
	p.line = 0
	if o.Mode != "" && p.oneOf(report.Position{}, "--mode", o.Mode, crdModes) {
		p.config.mode = value{text: o.Mode}
	}
	if o.FailMode != "" && p.oneOf(report.Position{}, "--fail-mode", o.FailMode, failModes) {
		p.config.failMode = value{text: o.FailMode}
	}
	if o.Preflights != nil {
		p.config.enabled, p.config.hasRules = map[string]value{}, true
		for _, name := range o.Preflights {
			if p.oneOf(report.Position{}, "--preflight", name, Preflights()) {
				p.config.enabled[name] = value{text: name}
			}
		}
	}
	return p.configOrErrors()
}

// Parse does what [Load] does with one file that is already in memory.
func Parse(file string, data []byte, rules []string) (*Config, []string, error) {
	p := newParser(rules)
	p.readFile(file, data)
	return p.configOrErrors()
}

// readFile reads a file, whatever it is, no further than a configuration may go.
func readFile(name string) ([]byte, error) {
	fail := func(err error, format string, args ...any) ([]byte, error) {
		return nil, &Error{Position: report.Position{File: name}, Msg: fmt.Sprintf(format, args...), Err: err}
	}
	f, err := os.Open(name) //nolint:gosec // reading the file that the user names is what this is for
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(err, "no such configuration file")
	case err != nil:
		return fail(err, "cannot be read: %v", systemReason(err))
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return fail(fs.ErrInvalid, "is a directory; name the configuration file in it")
	}
	data, err := limit.ReadAll(f, maxFile)
	switch {
	case errors.Is(err, limit.ErrTooLarge):
		return fail(err, "too large: more than %d MiB, the limit for a configuration", maxFile>>20)
	case err != nil:
		return fail(err, "cannot be read: %v", systemReason(err))
	}
	return data, nil
}

// systemReason is what the system says is wrong, without the path, which the reader knows.
func systemReason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// Mode returns [ModeError] or [ModeWarn].
func (c *Config) Mode() string {
	return cmp.Or(c.mode.text, ModeError)
}

// FeatureMode returns [ModeError] or [ModeWarn], as it holds for the preflight FeatureGates.
func (c *Config) FeatureMode() string { return cmp.Or(c.featureMode.text, ModeError) }

// FailMode returns [FailClosed] or [FailOpen].
func (c *Config) FailMode() string {
	return cmp.Or(c.failMode.text, FailClosed)
}

// KubeVersion returns the configured Kubernetes version, for example 1.29 or v1.29.3; empty if there is none.
func (c *Config) KubeVersion() string { return c.kubeVersion.text }

// Enabled tells whether the preflight of that name runs: where anybody names preflights, those that are named, and
// CRDUpgradeSafety alone where nobody does.
func (c *Config) Enabled(name string) bool {
	if !c.hasRules {
		return preflights[name]
	}
	_, ok := c.enabled[name]
	return ok
}

// knownRules are the rule IDs that a configuration may name: those that exist, and those about the configuration itself.
func knownRules(rules []string) []string {
	return append(slices.Clone(rules), RuleExpired, RuleUnused)
}
