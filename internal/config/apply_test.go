package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice.dev/report"
)

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c, _, err := Parse("f", []byte(ownHead+text), someRules)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func day(t *testing.T, s string) time.Time {
	t.Helper()
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestApplyDecidesSeverities(t *testing.T) {
	violation := report.Finding{Rule: "property-removed", Level: report.DataLost, Outcome: report.Violation, CRD: "as.x.io"}
	mild := report.Finding{Rule: "enum-value-removed", Level: report.ReadersSurprised, Outcome: report.Violation, CRD: "as.x.io"}
	undecided := report.Finding{Rule: "pattern-changed", Outcome: report.Undecided, CRD: "as.x.io", Message: "unable to determine if change to existing field is safe"}
	note := report.Finding{Rule: "old-crd-invalid", Outcome: report.Note, CRD: "as.x.io"}
	own := report.Finding{Rule: "property-removed", Level: report.DataLost, Outcome: report.Violation, Severity: report.Warn}
	open := report.Finding{Rule: "property-removed", Level: report.ObjectsRatcheted, MayBe: report.ObjectsStuck, Outcome: report.Violation}
	for _, tt := range []struct {
		name, text string
		f          report.Finding
		want       report.Severity
	}{
		{"what may be worse counts as the worse", "levels: {objects-ratcheted: warn}", open, report.Fail},
		{"or as what it is shown to be, where that is stricter", "levels: {objects-stuck: off, objects-ratcheted: warn}", open, report.Warn},
		{"rules speak of both", "rules: {property-removed: off}", open, report.Off},
		{"a violation has its level's severity", "", violation, report.Fail},
		{"a mild one too", "", mild, report.Warn},
		{"or its own", "", own, report.Warn},
		{"a violation without a level fails", "", report.Finding{Rule: "x", Outcome: report.Violation}, report.Fail},
		{"levels say otherwise", "levels: {data-lost: warn}", violation, report.Warn},
		{"levels turn it off", "levels: {data-lost: off}", violation, report.Off},
		{"levels make it fail", "levels: {readers-surprised: fail}", mild, report.Fail},
		{"levels win over its own", "levels: {data-lost: fail}", own, report.Fail},
		{"another level does not matter", "levels: {cosmetic: off}", violation, report.Fail},
		{"rules win over levels", "levels: {data-lost: off}\nrules: {property-removed: fail}", violation, report.Fail},
		{"rules turn it off", "rules: {property-removed: off}", violation, report.Off},
		{"in mode warn nothing fails", "mode: warn", violation, report.Warn},
		{"not even by rules", "mode: warn\nrules: {property-removed: fail}", violation, report.Warn},
		{"mode warn leaves off alone", "mode: warn\nrules: {property-removed: off}", violation, report.Off},
		{"what is undecided fails", "", undecided, report.Fail},
		{"fail mode closed says the same", "failMode: closed", undecided, report.Fail},
		{"fail mode open lets it pass", "failMode: open", undecided, report.Warn},
		{"mode warn lets it pass", "mode: warn", undecided, report.Warn},
		{"rules make it milder", "rules: {pattern-changed: warn}", undecided, report.Warn},
		{"rules turn it off", "rules: {pattern-changed: off}", undecided, report.Off},
		{"rules do not make it harsher", "failMode: open\nrules: {pattern-changed: fail}", undecided, report.Warn},
		{"fail mode open is not for violations", "failMode: open", violation, report.Fail},
		{"a note is told", "", note, report.Warn},
		{"a note never fails", "rules: {old-crd-invalid: fail}", note, report.Warn},
		{"a note can be turned off", "rules: {old-crd-invalid: off}", note, report.Off},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &report.Report{CRDs: []report.CRD{{Name: "as.x.io", Findings: []report.Finding{tt.f}}}}
			parsed(t, tt.text).Apply(r, time.Time{})
			got := r.CRDs[0].Findings[0]
			if got.Severity != tt.want {
				t.Errorf("got %s, want %s", got.Severity, tt.want)
			}
			got.Severity = tt.f.Severity
			if diff := cmp.Diff(tt.f, got); diff != "" {
				t.Errorf("the finding changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestZeroConfigHasDefaults(t *testing.T) {
	r := &report.Report{CRDs: []report.CRD{{Findings: []report.Finding{{Level: report.DataLost, Outcome: report.Violation}}}}}
	var c Config
	c.Apply(r, time.Time{})
	if r.Failing() != 1 || c.Mode() != ModeError || c.FailMode() != FailClosed {
		t.Errorf("got %+v, %s, %s", r, c.Mode(), c.FailMode())
	}
}

func TestSuppressionsMatch(t *testing.T) {
	f := report.Finding{Rule: "property-removed", Level: report.DataLost, Outcome: report.Violation, CRD: "widgets.apps.example.com", Version: "v1", Path: ".spec.tasks[*].timeout"}
	for _, tt := range []struct {
		text string
		want bool
	}{
		{"rule: property-removed", true},
		{"rule: enum-value-removed", false},
		{"rule: '*-removed'", true},
		{"rule: '*-value-removed'", false},
		{"crd: widgets.apps.example.com", true},
		{"crd: widgets.apps.example.co", false},
		{"crd: '*.apps.example.com'", true},
		{"crd: '*.example.com'", false},
		{"crd: '**.example.com'", true},
		{"crd: 'wid*.apps.*.com'", true},
		{"crd: '**'", true},
		{"crd: '*'", true},
		{"crd: '**'\n  version: v1", true},
		{"crd: '**'\n  version: v2", false},
		{"crd: '**'\n  version: 'v*'", true},
		{"path: .spec.tasks[*].timeout", true},
		{"crd: '**'\n  path: .spec.tasks[*].timeout", true},
		{"crd: '**'\n  path: spec.tasks[*].timeout", true},
		{"crd: '**'\n  path: .spec.tasks[*]", false},
		{"crd: '**'\n  path: .spec", false},
		{"crd: '**'\n  path: .spec.**", true},
		{"crd: '**'\n  path: .spec.*", false},
		{"crd: '**'\n  path: .spec.*[*].time*", true},
		{"crd: '**'\n  path: .*.tasks[*].*", true},
		{"crd: '**'\n  path: '**.timeout'", true},
		{"crd: '**'\n  path: '**timeout**'", true},
		{"crd: '**'\n  path: .spec.*.timeout", false},
		{"rule: property-removed\n  crd: '*.apps.example.com'\n  version: v1\n  path: .spec.**", true},
		{"rule: enum-value-removed\n  crd: '*.apps.example.com'\n  version: v1\n  path: .spec.**", false},
	} {
		t.Run(tt.text, func(t *testing.T) {
			r := &report.Report{CRDs: []report.CRD{{Name: f.CRD, Findings: []report.Finding{f}}}}
			parsed(t, "suppressions:\n- "+tt.text+"\n  reason: so it is\n  expires: 2027-01-31\n").Apply(r, day(t, "2027-01-31"))
			got := r.CRDs[0].Findings[0]
			want := f
			want.Severity = report.Fail
			if tt.want {
				want.Severity = report.Off
				want.Suppressed = &report.Suppression{Reason: "so it is", Expires: "2027-01-31"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPatternsTakeLittleTime(t *testing.T) {
	stars, text := "", ""
	for range 2000 {
		stars += "*a"
		text += "a"
	}
	if newMatcher(stars+"b", ".").matchesText(text) {
		t.Error("the pattern matches")
	}
	if !newMatcher(stars, ".").matchesText(text + text) {
		t.Error("the pattern does not match")
	}
}

func TestSuppressionsAreTold(t *testing.T) {
	finding := report.Finding{Rule: "property-removed", Level: report.DataLost, Outcome: report.Violation, CRD: "bs.x.io", Path: ".spec.a"}
	crds := func() *report.Report {
		return &report.Report{CRDs: []report.CRD{{Name: "cs.x.io"}, {Name: "bs.x.io", Findings: []report.Finding{finding}}, {Name: "as.y.io"}}}
	}
	type told struct {
		CRD, Rule string
		Outcome   report.Outcome
		Severity  report.Severity
		Line      int
		Accepted  bool
	}
	failing := told{"bs.x.io", "property-removed", report.Violation, report.Fail, 0, false}
	accepted := told{"bs.x.io", "property-removed", report.Violation, report.Off, 0, true}
	for _, tt := range []struct {
		name, text, today string
		want              []told
	}{
		{"one that is good", "suppressions:\n- {crd: bs.x.io, reason: x, expires: 2027-01-31}", "2027-01-30", []told{accepted}},
		{"one on its last day", "suppressions:\n- {crd: bs.x.io, reason: x, expires: 2027-01-31}", "2027-01-31", []told{accepted}},
		{"one that has expired", "suppressions:\n- {crd: bs.x.io, reason: x, expires: 2027-01-31}", "2027-02-01", []told{
			failing, {"bs.x.io", RuleExpired, report.Violation, report.Fail, 4, false},
		}},
		{"one that has expired and matches nothing", "suppressions:\n\n- {crd: '*.x.io', path: spec.none, reason: x, expires: 2027-01-31}", "2027-02-01", []told{
			failing, {"bs.x.io", RuleExpired, report.Violation, report.Fail, 5, false},
		}},
		{"one that has expired, in mode warn", "mode: warn\nsuppressions:\n- {crd: cs.x.io, reason: x, expires: 2027-01-31}", "2027-02-01", []told{
			{"cs.x.io", RuleExpired, report.Violation, report.Warn, 5, false}, {"bs.x.io", "property-removed", report.Violation, report.Warn, 0, false},
		}},
		{"one that has expired, made mild", "rules: {suppression-expired: warn}\nsuppressions:\n- {crd: cs.x.io, reason: x, expires: 2027-01-31}", "2027-02-01", []told{
			{"cs.x.io", RuleExpired, report.Violation, report.Warn, 5, false}, failing,
		}},
		{"one that has expired beside one that is good", "suppressions:\n- {crd: bs.x.io, reason: x, expires: 2027-01-31}\n- {crd: bs.x.io, reason: x, expires: 2028-01-31}", "2027-02-01", []told{
			accepted, {"bs.x.io", RuleExpired, report.Violation, report.Fail, 4, false},
		}},
		{"one that matches nothing", "suppressions:\n- {rule: pattern-changed, reason: x}", "2027-02-01", []told{
			failing, {"as.y.io", RuleUnused, report.Note, report.Warn, 4, false},
		}},
		{"one that matches nothing, turned off", "rules: {suppression-unused: off}\nsuppressions:\n- {rule: pattern-changed, reason: x}", "2027-02-01", []told{
			failing, {"as.y.io", RuleUnused, report.Note, report.Off, 5, false},
		}},
		{"one for a CRD that is not looked at", "suppressions:\n- {crd: zs.x.io, reason: x}\n- {crd: zs.x.io, reason: x, expires: 2020-01-01}", "2027-02-01", []told{failing}},
		{"one for a rule that is off is used", "rules: {property-removed: off}\nsuppressions:\n- {crd: bs.x.io, reason: x}", "2027-02-01", []told{
			{"bs.x.io", "property-removed", report.Violation, report.Off, 0, false},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := parsed(t, tt.text)
			for range 2 { // applying does not change the configuration
				r := crds()
				c.Apply(r, day(t, tt.today))
				var got []told
				for _, crd := range r.CRDs {
					for _, f := range crd.Findings {
						line := 0
						if f.Position != nil {
							line = f.Position.Line
						}
						if f.CRD != crd.Name || f.Position != nil && f.Position.File != "f" {
							t.Errorf("%+v stands at %s", f, crd.Name)
						}
						got = append(got, told{crd.Name, f.Rule, f.Outcome, f.Severity, line, f.Suppressed != nil})
					}
				}
				if diff := cmp.Diff(tt.want, got, cmpopts.SortSlices(func(a, b told) bool { return a.CRD+a.Rule < b.CRD+b.Rule })); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
	t.Run("a note needs no acceptance", func(t *testing.T) {
		r := &report.Report{CRDs: []report.CRD{{Name: "as.x.io", Findings: []report.Finding{{Rule: "old-crd-invalid", Outcome: report.Note, CRD: "as.x.io"}}}}}
		parsed(t, "suppressions:\n- {crd: as.x.io, reason: x}").Apply(r, time.Time{})
		fs := r.CRDs[0].Findings
		if len(fs) != 2 || fs[0].Suppressed != nil || fs[0].Severity != report.Warn || fs[1].Rule != RuleUnused {
			t.Errorf("got %+v", fs)
		}
	})
	t.Run("without CRDs", func(t *testing.T) {
		r := &report.Report{}
		parsed(t, "suppressions:\n- {rule: pattern-changed, reason: x}").Apply(r, time.Time{})
		if len(r.CRDs) != 0 {
			t.Errorf("got %+v", r)
		}
	})
}

// In mode stored a finding warns, and its sentence does not deny what the objects show.
func TestModeStoredSaysWhatDecides(t *testing.T) {
	for says, objects := range map[string]report.ObjectScan{
		"(mode stored: no stored object bears it out, of 2)":              {Checked: 2},
		"(mode stored: the findings about stored objects decide)":         {Checked: 2, Refused: 1},
		"changed (mode stored: the findings about stored objects decide)": {Checked: 2, Unjudged: 1},
	} {
		r := &report.Report{CRDs: []report.CRD{{Name: "a", Objects: &objects, Findings: []report.Finding{
			{Rule: "validation-rule-added", Level: report.ObjectsRatcheted, Outcome: report.Violation, Severity: report.Fail, Message: "changed"},
		}}}}
		parsed(t, "mode: stored\n").Apply(r, day(t, "2027-01-31"))
		if f := r.CRDs[0].Findings[0]; f.Severity != report.Warn || !strings.HasSuffix(f.Message, says) {
			t.Errorf("%+v, want %s", f, says)
		}
	}
}
