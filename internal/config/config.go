// Package config reads the configuration of checks: the preflightRules of kapp's file, and sluice's own keys, and applies
// it to a report. It promises to refuse what it does not know, with all errors at once, each with file and line and what
// is allowed. It does not find the files, and does not decide what is harmful.
package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"sluice.dev/report"
)

// Modes and fail modes, as kapp names them.
const (
	ModeError  = "error"
	ModeWarn   = "warn"
	FailClosed = "closed"
	FailOpen   = "open"
)

// Config is what holds for a run. The zero value has the defaults: mode error, fail mode closed.
type Config struct {
	mode, failMode, kubeVersion value
	levels                      map[report.Level]value
	rules                       map[string]value
	suppressions                []suppression
	enabled                     map[string]value // preflight rules, by name
	hasRules                    bool
}

// value is a setting and where it was made.
type value struct {
	text string
	pos  report.Position
}

// suppression accepts findings.
type suppression struct {
	rule, crd, version, path string
	reason                   string
	expires                  string // YYYY-MM-DD or empty
	pos                      report.Position
	used                     bool
}

// Options say what is loaded.
type Options struct {
	// Files are read in order. Settings that contradict each other are an error.
	Files []string
	// Mode and FailMode come from the command line and win over the files; empty means not given.
	Mode, FailMode string
	// Rules are the IDs that exist.
	Rules []string
}

// maxFile is the size of a configuration file at most.
const maxFile = 4 << 20

// Load reads the files. The notes say which keys of kapp's file have no meaning here. The error joins everything that is
// wrong, one line each: FILE:LINE: what, and what is allowed.
func Load(o Options) (*Config, []string, error) {
	c := &Config{levels: map[report.Level]value{}, rules: map[string]value{}, enabled: map[string]value{}}
	p := &parser{config: c, rules: o.Rules}
	for _, f := range o.Files {
		info, err := os.Stat(f)
		switch {
		case errors.Is(err, os.ErrNotExist):
			p.errs = append(p.errs, fmt.Errorf("%s: there is no such configuration file", f))
		case err != nil:
			p.errs = append(p.errs, fmt.Errorf("%s: %w", f, err))
		case info.IsDir():
			p.errs = append(p.errs, fmt.Errorf("%s: is a directory; name the configuration file", f))
		case info.Size() > maxFile:
			p.errs = append(p.errs, fmt.Errorf("%s: larger than the %d bytes that a configuration may have", f, maxFile))
		default:
			data, err := os.ReadFile(f)
			if err != nil {
				p.errs = append(p.errs, fmt.Errorf("%s: %w", f, err))
				continue
			}
			p.file(f, data)
		}
	}
	if o.Mode != "" {
		p.oneOf(report.Position{}, "--mode", o.Mode, ModeError, ModeWarn)
		c.mode.text = o.Mode
	}
	if o.FailMode != "" {
		p.oneOf(report.Position{}, "--fail-mode", o.FailMode, FailClosed, FailOpen)
		c.failMode.text = o.FailMode
	}
	if err := errors.Join(p.errs...); err != nil {
		return nil, p.notes, err
	}
	return c, p.notes, nil
}

// Parse reads one file that is already in memory, for tests and other callers.
func Parse(file string, data []byte, rules []string) (*Config, []string, error) {
	c := &Config{levels: map[report.Level]value{}, rules: map[string]value{}, enabled: map[string]value{}}
	p := &parser{config: c, rules: rules}
	p.file(file, data)
	if err := errors.Join(p.errs...); err != nil {
		return nil, p.notes, err
	}
	return c, p.notes, nil
}

// Mode returns error or warn.
func (c *Config) Mode() string {
	if c.mode.text == "" {
		return ModeError
	}
	return c.mode.text
}

// FailMode returns closed or open.
func (c *Config) FailMode() string {
	if c.failMode.text == "" {
		return FailClosed
	}
	return c.failMode.text
}

// KubeVersion returns the configured Kubernetes version, or nothing.
func (c *Config) KubeVersion() string { return c.kubeVersion.text }

// Enabled tells whether the preflight of that name runs: all do where no preflightRules are given, else those that are
// named.
func (c *Config) Enabled(name string) bool {
	if !c.hasRules {
		return true
	}
	_, ok := c.enabled[name]
	return ok
}

// Apply decides what each finding does to the exit code, and marks those that are accepted. A suppression that has expired
// is a finding; one that nothing matches is a note.
func (c *Config) Apply(r *report.Report, now time.Time) {
	today := now.Format(time.DateOnly)
	for i := range r.CRDs {
		for j := range r.CRDs[i].Findings {
			f := &r.CRDs[i].Findings[j]
			f.Severity = c.severity(f)
			for k := range c.suppressions {
				s := &c.suppressions[k]
				if !s.matches(f) {
					continue
				}
				s.used = true
				if !s.expired(today) && f.Outcome != report.Note {
					f.Severity = report.Off
					f.Suppressed = &report.Suppression{Reason: s.reason, Expires: s.expires}
				}
			}
		}
	}
	for _, s := range c.suppressions {
		switch {
		case s.used && s.expired(today):
			c.tell(r, s, report.Violation, report.Fail, "suppression-expired",
				fmt.Sprintf("a suppression expired on %s: %s", s.expires, s.reason))
		case !s.used:
			c.tell(r, s, report.Note, report.Warn, "suppression-unused", "a suppression matches no finding: "+s.reason)
		}
	}
}

func (c *Config) severity(f *report.Finding) report.Severity {
	var s report.Severity
	switch f.Outcome {
	case report.Note:
		return report.Warn
	case report.Undecided:
		s = report.Fail
		if c.FailMode() == FailOpen {
			s = report.Warn
		}
	case report.Violation:
		s = f.Severity
		if s == "" {
			s, _ = f.Level.Default()
		}
		if v, ok := c.levels[f.Level]; ok {
			s = report.Severity(v.text)
		}
	}
	if v, ok := c.rules[f.Rule]; ok {
		s = report.Severity(v.text)
	}
	if s == report.Fail && c.Mode() == ModeWarn {
		s = report.Warn
	}
	return s
}

// tell adds a finding about the configuration itself to the first CRD that the suppression speaks of.
func (c *Config) tell(r *report.Report, s suppression, o report.Outcome, sev report.Severity, rule, message string) {
	if len(r.CRDs) == 0 {
		return
	}
	if sev == report.Fail && c.Mode() == ModeWarn {
		sev = report.Warn
	}
	i := max(slices.IndexFunc(r.CRDs, func(crd report.CRD) bool { return s.crd == "" || glob(s.crd, crd.Name, '.') }), 0)
	pos := s.pos
	r.CRDs[i].Findings = append(r.CRDs[i].Findings, report.Finding{
		Rule: rule, Outcome: o, Severity: sev, CRD: r.CRDs[i].Name, Message: message, Position: &pos,
	})
}

func (s *suppression) expired(today string) bool { return s.expires != "" && s.expires < today }

func (s *suppression) matches(f *report.Finding) bool {
	return (s.rule == "" || glob(s.rule, f.Rule, '-')) &&
		(s.crd == "" || glob(s.crd, f.CRD, '.')) &&
		(s.version == "" || glob(s.version, f.Version, 0)) &&
		(s.path == "" || glob(s.path, f.Path, '.') || glob("."+strings.TrimPrefix(s.path, "."), f.Path, '.'))
}

// glob matches a pattern in which ** stands for anything and * for anything without the separator (0: for anything). The
// [*] of a path, which stands for any item, matches itself.
func glob(pattern, text string, sep byte) bool {
	for {
		switch {
		case pattern == "":
			return text == ""
		case strings.HasPrefix(pattern, "[*]"):
			if !strings.HasPrefix(text, "[*]") {
				return false
			}
			pattern, text = pattern[3:], text[3:]
		case pattern[0] == '*':
			rest, anything := strings.CutPrefix(pattern, "**")
			if !anything {
				rest = pattern[1:]
			}
			for i := 0; ; i++ {
				if glob(rest, text[i:], sep) {
					return true
				}
				if i == len(text) || !anything && sep != 0 && text[i] == sep {
					return false
				}
			}
		case text == "" || pattern[0] != text[0]:
			return false
		default:
			pattern, text = pattern[1:], text[1:]
		}
	}
}
