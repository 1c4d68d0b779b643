package config

import (
	"strings"
	"testing"
	"time"

	"sluice.dev/report"
)

// In mode stored what no stored object bears out warns and says so, once the objects were read; the rest fails.
func TestModeStored(t *testing.T) {
	c, _, err := Parse("f", []byte(ownHead+"mode: stored\n"), someRules)
	if err != nil {
		t.Fatal(err)
	}
	scan := &report.ObjectScan{Checked: 3}
	for name, test := range map[string]struct {
		finding report.Finding
		scan    *report.ObjectScan
		fails   bool
	}{
		"the schema alone":             {report.Finding{Level: report.DataLost}, scan, false},
		"writers":                      {report.Finding{Level: report.WritersRefused}, scan, false},
		"undecided":                    {report.Finding{Outcome: report.Undecided}, scan, false},
		"stored objects":               {report.Finding{Level: report.ObjectsStuck, Objects: &report.Objects{Checked: 3, Affected: 1}}, scan, true},
		"the API server refuses it":    {report.Finding{Level: report.RefusedByAPIServer}, scan, true},
		"objects that were not judged": {report.Finding{Outcome: report.Undecided, Rule: "stored-objects-unread"}, scan, true},
		"nobody has read the objects":  {report.Finding{Level: report.DataLost}, nil, true},
	} {
		f := test.finding
		if f.Outcome == "" {
			f.Outcome = report.Violation
		}
		r := &report.Report{CRDs: []report.CRD{{Name: "a", Objects: test.scan, Findings: []report.Finding{f}}}}
		c.Apply(r, time.Time{})
		got := r.CRDs[0].Findings[0]
		if (got.Severity == report.Fail) != test.fails || strings.Contains(got.Message, "mode stored") == test.fails {
			t.Errorf("%s: %s %q", name, got.Severity, got.Message)
		}
	}
}
