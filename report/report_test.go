package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOfEqualFindingsTheOneWithEvidenceStays(t *testing.T) {
	bare := Finding{Rule: "r", Message: "m", Severity: Fail}
	placed, shown := bare, bare
	placed.Position = &Position{File: "f", Line: 1}
	shown.Witness = &Witness{Object: "o"}
	want := []Finding{shown}
	for _, order := range [][]Finding{{bare, placed, shown}, {shown, placed, bare}, {placed, shown, bare}} {
		r := &Report{CRDs: []CRD{{Findings: order}}}
		r.Sort()
		if diff := cmp.Diff(want, r.CRDs[0].Findings); diff != "" {
			t.Error(diff)
		}
	}
}

func TestUnknownSeveritiesComeLast(t *testing.T) {
	r := &Report{CRDs: []CRD{{Findings: []Finding{{Severity: "grave"}, {Severity: Off}, {Severity: Fail}}}}}
	r.Sort()
	var got []Severity
	for _, f := range r.CRDs[0].Findings {
		got = append(got, f.Severity)
	}
	if diff := cmp.Diff([]Severity{Fail, Off, "grave"}, got); diff != "" {
		t.Error(diff)
	}
}
