package config

import (
	"strings"
	"testing"
	"time"

	"sluice.dev/report"
)

// FuzzConfig holds the parser to never panicking, to errors of one line that name the file, and to configurations that
// can be applied.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		"", ownHead, ownHead + "mode: warn\nfailMode: open\nkubeVersion: v1.30.1\n", kappHead + "rebaseRules: []\npreflightRules:\n- name: CRDUpgradeSafety\n  config:\n    mode: warn\n",
		ownHead + "levels: {cosmetic: off, data-lost: warn}\nrules: {pattern-changed: warn}\n",
		ownHead + "suppressions:\n- {rule: '*', crd: '**.x', version: v*, path: 'a.**[*].*', reason: x, expires: 2027-01-31}\n- {crd: a, reason: b}\n",
		kappHead + "preflightRules:\n- name: PermissionValidation\n- name: FeatureGate\n", ownHead + "a: &a [*a]\n", ownHead + "<<: {mode: warn}\n", "{", "a: b\n c: d\n", "- [a]: b\n",
		ownHead + "---\n" + ownHead + "mode: error\nmode: warn\n", ownHead + "mode: !!binary eA==\n", "? a\n: b\n", ownHead + "mode: |\n  warn\n", "\xff\xfe", "kind: Config\napiVersion: [a]\n",
		"unhandledEnforcement: None\nconversion: None\nvalidations:\n- {name: enum, enforcement: Error, configuration: {additionPolicy: Allow}}\n- {name: description, enforcement: [a]}\n- x\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, notes, err := Parse("f", data, someRules)
		for _, n := range notes {
			if !strings.HasPrefix(n, "f:") || strings.Contains(n, "\n") {
				t.Errorf("bad note %q", n)
			}
		}
		if (c == nil) != (err != nil) {
			t.Fatalf("got %v beside the error %v", c, err)
		}
		if err != nil {
			joined, ok := err.(interface{ Unwrap() []error })
			if !ok {
				t.Fatalf("got %T", err)
			}
			for _, e := range joined.Unwrap() {
				if !strings.HasPrefix(e.Error(), "f:") || strings.ContainsAny(e.Error(), "\n\r") {
					t.Errorf("bad error %q", e)
				}
			}
			return
		}
		r := &report.Report{CRDs: []report.CRD{{Name: "as.x.io", Findings: []report.Finding{
			{Rule: "property-removed", Level: report.DataLost, Outcome: report.Violation, CRD: "as.x.io", Version: "v1", Path: ".spec.a[*].b"},
			{Rule: "pattern-changed", Outcome: report.Undecided, CRD: "as.x.io"},
			{Rule: "old-crd-invalid", Outcome: report.Note, CRD: "as.x.io"},
		}}}}
		c.Apply(r, time.Unix(0, 0))
		for _, x := range r.CRDs[0].Findings {
			if x.Severity != report.Fail && x.Severity != report.Warn && x.Severity != report.Off {
				t.Errorf("severity %q of %+v", x.Severity, x)
			}
		}
		if c.Mode() == ModeWarn && r.Failing() > 0 {
			t.Errorf("%d findings fail in mode warn", r.Failing())
		}
	})
}
