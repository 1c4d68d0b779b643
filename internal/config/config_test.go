package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/report"
)

var rules = []string{"enum-value-removed", "property-removed", "printer-column-removed"}

const kapp = "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\n"

const own = "apiVersion: sluice.dev/v1alpha1\nkind: Config\n"

func TestErrorsSayWhereAndWhatIsAllowed(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"empty":            {"", "c.yaml: empty; a configuration begins with"},
		"broken":           {"a: [", "c.yaml: not valid YAML"},
		"a list":           {"- a", "c.yaml:1: a configuration has to be a mapping"},
		"wrong kind":       {"apiVersion: sluice.dev/v1alpha1\nkind: Konfig", `c.yaml:1: kind is "Konfig"; want kind: Config`},
		"wrong apiVersion": {"apiVersion: v1\nkind: Config", `apiVersion is "v1"; want sluice.dev/v1alpha1 or kapp.k14s.io/v1alpha1`},
		"unknown kapp key": {kapp + "preflightRule: []", `c.yaml:3: unknown key "preflightRule" (did you mean "preflightRules"?)`},
		"unknown own key":  {own + "modes: error", `c.yaml:3: unknown key "modes" (did you mean "mode"?); the keys are mode, failMode`},
		"unknown preflight": {
			kapp + "preflightRules:\n- name: CRDUpgradeSaftey",
			`c.yaml:4: unknown preflight rule "CRDUpgradeSaftey" (did you mean "CRDUpgradeSafety"?); the names are CRDUpgradeSafety, FeatureGates, PermissionValidation`,
		},
		"preflight that is not run": {kapp + "preflightRules:\n- name: FeatureGates", "this build does not run the preflight rule FeatureGates yet"},
		"bad mode":                  {own + "mode: warning", `c.yaml:3: mode "warning" (did you mean "warn"?); allowed are error, warn`},
		"bad fail mode":             {kapp + "preflightRules:\n- name: CRDUpgradeSafety\n  config: {failMode: close}", `c.yaml:5: failMode "close" (did you mean "closed"?); allowed are closed, open`},
		"bad level":                 {own + "levels: {data-lots: warn}", `unknown level "data-lots" (did you mean "data-lost"?)`},
		"bad severity":              {own + "levels: {data-lost: ignore}", `level data-lost "ignore"; allowed are fail, warn, off`},
		"bad rule":                  {own + "rules: {enum-value-remove: off}", `unknown rule "enum-value-remove" (did you mean "enum-value-removed"?)`},
		"no reason":                 {own + "suppressions:\n- rule: property-removed", "c.yaml:4: a suppression needs a reason"},
		"no rule and no crd":        {own + "suppressions:\n- reason: x", "c.yaml:4: a suppression names a rule, a crd, or both"},
		"bad date":                  {own + "suppressions:\n- {rule: property-removed, reason: x, expires: soon}", `expires "soon" is no date of the form YYYY-MM-DD`},
		"key twice":                 {own + "mode: error\nmode: warn", `c.yaml:4: key "mode" stands here twice`},
		"contradiction":             {own + "mode: error\n---\n" + own + "mode: warn", "mode is warn here and error at c.yaml:3"},
		"too many stars":            {own + "suppressions:\n- {rule: property-removed, reason: x, path: '**a**b**c**d**e'}", "at most 8 stars"},
		"bad version":               {own + "kubeVersion: latest", `kubeVersion "latest" is no version`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Parse("c.yaml", []byte(test.text), rules)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestAllErrorsAreToldAtOnce(t *testing.T) {
	_, _, err := Parse("c.yaml", []byte(own+"mode: x\nfailMode: y\nlevels: {z: fail}"), rules)
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("error %v, want three lines", err)
	}
}

func TestKappsOtherKeysPassWithANote(t *testing.T) {
	c, notes, err := Parse("c.yaml", []byte(kapp+"rebaseRules: []\npreflightRules:\n- name: CRDUpgradeSafety\n  config: {mode: warn, failMode: open}"), rules)
	if err != nil {
		t.Fatal(err)
	}
	if c.Mode() != ModeWarn || c.FailMode() != FailOpen || len(notes) != 1 || !strings.Contains(notes[0], "rebaseRules") {
		t.Errorf("mode %s, fail mode %s, notes %q", c.Mode(), c.FailMode(), notes)
	}
}

func TestApply(t *testing.T) {
	violation := func(rule, path string, l report.Level) report.Finding {
		return report.Finding{Rule: rule, Level: l, Outcome: report.Violation, CRD: "a.example.com", Version: "v1", Path: path}
	}
	undecided := report.Finding{Rule: "enum-value-removed", Outcome: report.Undecided, CRD: "a.example.com"}
	lost := violation("property-removed", ".spec.a", report.DataLost)
	column := violation("printer-column-removed", "", report.Cosmetic)
	suppress := func(more string) string {
		return own + "suppressions:\n- {rule: property-removed, reason: known" + more + "}"
	}
	for name, test := range map[string]struct {
		text     string
		findings []report.Finding
		want     []report.Severity
		rules    []string // of findings about the configuration itself
	}{
		"defaults":          {own, []report.Finding{lost, column, undecided}, []report.Severity{report.Fail, report.Warn, report.Fail}, nil},
		"warn never fails":  {own + "mode: warn", []report.Finding{lost, undecided}, []report.Severity{report.Warn, report.Warn}, nil},
		"open":              {own + "failMode: open", []report.Finding{lost, undecided}, []report.Severity{report.Fail, report.Warn}, nil},
		"level":             {own + "levels: {cosmetic: fail}", []report.Finding{column}, []report.Severity{report.Fail}, nil},
		"rule over level":   {own + "levels: {cosmetic: fail}\nrules: {printer-column-removed: off}", []report.Finding{column}, []report.Severity{report.Off}, nil},
		"suppressed":        {suppress(""), []report.Finding{lost, column}, []report.Severity{report.Off, report.Warn}, nil},
		"other path":        {suppress(", path: .spec.b"), []report.Finding{lost}, []report.Severity{report.Fail}, []string{"suppression-unused"}},
		"glob":              {suppress(", path: '.spec.*', crd: '*.example.com'"), []report.Finding{lost}, []report.Severity{report.Off}, nil},
		"glob is one name":  {suppress(", path: '.*'"), []report.Finding{lost}, []report.Severity{report.Fail}, []string{"suppression-unused"}},
		"last day":          {suppress(", expires: 2026-05-04"), []report.Finding{lost}, []report.Severity{report.Off}, nil},
		"expired yesterday": {suppress(", expires: 2026-05-03"), []report.Finding{lost}, []report.Severity{report.Fail}, []string{"suppression-expired"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := Parse("c.yaml", []byte(test.text), rules)
			if err != nil {
				t.Fatal(err)
			}
			r := &report.Report{CRDs: []report.CRD{{Name: "a.example.com", Findings: test.findings}}}
			c.Apply(r, time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))
			var got []report.Severity
			var more []string
			for i, f := range r.CRDs[0].Findings {
				if i < len(test.findings) {
					got = append(got, f.Severity)
				} else {
					more = append(more, f.Rule)
				}
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(test.rules, more); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.yaml")
	if err := os.WriteFile(big, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "none"): "there is no such configuration file", dir: "is a directory", big: "larger than",
	} {
		if _, _, err := Load(Options{Files: []string{file}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", file, err, want)
		}
	}
	if _, _, err := Load(Options{Mode: "panic"}); err == nil || !strings.Contains(err.Error(), "allowed are error, warn") {
		t.Errorf("a bad --mode gave %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(own + "suppressions:\n- {rule: 'p*', path: '.a.**', reason: x}")
	f.Add(kapp + "preflightRules:\n- name: CRDUpgradeSafety\n  config: {mode: warn}")
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := Parse("c.yaml", []byte(text), rules)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v and error %v", c, err)
		}
		if c != nil {
			c.Apply(&report.Report{CRDs: []report.CRD{{Findings: []report.Finding{{Rule: "property-removed", Path: ".a.b[*].c"}}}}}, time.Time{})
		}
	})
}
