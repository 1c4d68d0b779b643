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

func TestObjectsThatWereNotJudgedAreNotFine(t *testing.T) {
	s := ObjectScan{Version: "v1", Checked: 2, Unjudged: 1}
	if got, want := s.scanSummary(), "2 stored objects read in v1: 1 could not be judged"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
