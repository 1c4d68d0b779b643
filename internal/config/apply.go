package config

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"sluice.dev/report"
)

// This file decides what a finding means for the exit code. For example, with levels: {readers-surprised: off} and rules:
// {enum-value-added: warn}, a new enum value warns, since a rule wins over its level; a suppression that matches turns the finding off
// and keeps it in the report with its reason.

// Apply decides the severity of each finding, marks those that are accepted, and adds what there is to say about the
// suppressions. It does not sort the report.
//
// A violation has the severity that rules gives its rule, else the one that levels gives its level, else the one that it
// came with, else its level's own. Where it may be of a worse level, the stricter severity of the two levels holds. An undecided change fails, or warns where the fail mode is open; rules can make that
// milder, not harsher. A note is told, and is off only where rules says so of its rule. In mode warn nothing fails; in mode stored only what
// the stored objects bear out does, and what the API server refuses anyway, where they have been read. A
// finding that a suppression matches is off, with the reason of the first one that does.
//
// A suppression is good until the end of its date, in the location of now. Afterwards it is a finding of the rule
// [RuleExpired], which fails, and accepts nothing. One that matches no finding is a note of the rule [RuleUnused]. Neither
// is told where the report has no CRD that the suppression could be about.
func (c *Config) Apply(r *report.Report, now time.Time) {
	today := now.Format(time.DateOnly)
	used := make([]bool, len(c.suppressions))
	for i := range r.CRDs {
		for j := range r.CRDs[i].Findings {
			f := &r.CRDs[i].Findings[j]
			f.Severity = c.severityOf(f)
			c.warnWithoutObject(&r.CRDs[i], f)
			for k, s := range c.suppressions {
				if f.Outcome == report.Note || !s.matchesFinding(f) {
					continue
				}
				used[k] = true
				if f.Severity != report.Off && !s.isExpired(today) {
					f.Severity = report.Off
					f.Suppressed = &report.Suppression{Reason: s.reason, Expires: s.expires}
				}
			}
		}
	}
	for k, s := range c.suppressions {
		switch {
		case s.isExpired(today):
			c.addFinding(r, s, report.Finding{
				Rule: RuleExpired, Outcome: report.Violation, Severity: report.Fail,
				Message: fmt.Sprintf("the suppression of %s expired on %s; its reason was: %s", s, s.expires, s.reason),
			})
		case !used[k]:
			c.addFinding(r, s, report.Finding{
				Rule: RuleUnused, Outcome: report.Note,
				Message: fmt.Sprintf("the suppression of %s matches no finding and can go; its reason is: %s", s, s.reason),
			})
		}
	}
}

// severityOf is that of f before suppressions.
func (c *Config) severityOf(f *report.Finding) report.Severity {
	rule := report.Severity(c.rules[f.Rule].text)
	var s report.Severity
	switch f.Outcome {
	case report.Note:
		if rule == report.Off {
			return report.Off
		}
		return report.Warn
	case report.Undecided:
		s = report.Fail
		if c.FailMode() == FailOpen {
			s = report.Warn
		}
		if rule == report.Off || rule == report.Warn {
			s = rule
		}
	case report.Violation:
		s = cmp.Or(rule, c.byLevel(f.Level, f.Severity))
		if f.MayBe != "" && rule == "" {
			s = report.Stricter(s, c.byLevel(f.MayBe, f.Severity))
		}
	}
	if s == report.Fail && c.Mode() == ModeWarn {
		return report.Warn
	}
	return s
}

// byLevel is the severity of a level, of a finding that came with one.
func (c *Config) byLevel(l report.Level, own report.Severity) report.Severity {
	byDefault, _ := l.Default()
	return cmp.Or(report.Severity(c.levels[l].text), own, byDefault, report.Fail)
}

// ruleUnread is the rule of objects that could not be judged: nobody knows what becomes of these.
const ruleUnread = "stored-objects-unread"

// warnWithoutObject lets a finding warn, in mode stored, that no stored object bears out.
func (c *Config) warnWithoutObject(crd *report.CRD, f *report.Finding) {
	if c.Mode() != ModeStored || f.Severity != report.Fail || crd.Objects == nil || f.Objects != nil || f.Level == report.RefusedByAPIServer || f.Rule == ruleUnread {
		return
	}
	f.Severity = report.Warn
	if o := crd.Objects; o.Refused+o.Pruned+o.Changed+o.Unjudged > 0 {
		f.Message += " (mode stored: the findings about stored objects decide)"
		return
	}
	f.Message += fmt.Sprintf(" (mode stored: no stored object bears it out, of %d)", crd.Objects.Checked)
}

// addFinding adds a finding about the suppression s to the first CRD, by name, that s could be about.
func (c *Config) addFinding(r *report.Report, s suppression, f report.Finding) {
	at := -1
	for i, crd := range r.CRDs {
		if s.crd.matchesText(crd.Name) && (at < 0 || crd.Name < r.CRDs[at].Name) {
			at = i
		}
	}
	if at < 0 {
		return
	}
	pos := s.pos
	f.CRD, f.Position = r.CRDs[at].Name, &pos
	f.Severity = c.severityOf(&f)
	r.CRDs[at].Findings = append(r.CRDs[at].Findings, f)
}

// suppression accepts the findings that match all that it names.
type suppression struct {
	rule, crd, version, path matcher
	reason                   string
	// expires is a date, YYYY-MM-DD, or empty.
	expires string
	pos     report.Position
}

// matcher is a pattern as the user wrote it. The empty one and a lone star match everything, names with dots included.
type matcher struct {
	text    string
	pattern *regexp.Regexp // nil: it is too large, and matches nothing
}

// newMatcher compiles a pattern for names and paths: * stands for anything within a segment, which separators end, ** for anything at all. The
// [*] of a path, which stands for any item, is no star: it matches itself.
func newMatcher(text, separators string) matcher {
	within := ".*"
	if separators != "" {
		within = "[^" + regexp.QuoteMeta(separators) + "]*"
	}
	pattern, _ := regexp.Compile(`(?s)\A` + patternPart.ReplaceAllStringFunc(text, func(part string) string {
		switch {
		case part == "*":
			return within
		case part[0] == '*':
			return ".*"
		}
		return regexp.QuoteMeta(part)
	}) + `\z`)
	return matcher{text, pattern}
}

var patternPart = regexp.MustCompile(`\[\*\]|\*+|[^*[]+|\[`)

func (m matcher) matchesText(s string) bool {
	return m.text == "" || m.text == "*" || m.pattern != nil && m.pattern.MatchString(s)
}

// String names what s accepts, for messages.
func (s suppression) String() string {
	var parts []string
	for _, p := range []struct{ name, text string }{
		{"rule", s.rule.text}, {"CRD", s.crd.text}, {"version", s.version.text}, {"path", s.path.text},
	} {
		if p.text != "" {
			parts = append(parts, p.name+" "+p.text)
		}
	}
	return strings.Join(parts, ", ")
}

func (s suppression) isExpired(today string) bool { return s.expires != "" && s.expires < today }

func (s suppression) matchesFinding(f *report.Finding) bool {
	return s.rule.matchesText(f.Rule) && s.crd.matchesText(f.CRD) && s.version.matchesText(f.Version) && s.path.matchesText(f.Path)
}
