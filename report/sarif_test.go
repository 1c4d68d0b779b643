package report

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The parts of a SARIF file that matter here, with the names of the standard.
type readRun struct {
	Tool struct {
		Driver struct {
			Name            string
			SemanticVersion string
			Rules           []struct {
				ID               string
				ShortDescription readText
				Help             readText
			}
		}
	}
	Results []readResult
}

type readText struct{ Text string }

type readResult struct {
	RuleID    string
	RuleIndex int
	Level     string
	Message   readText
	Locations []struct {
		PhysicalLocation struct {
			ArtifactLocation struct{ URI string }
			Region           *struct{ StartLine, StartColumn int }
		}
	}
	PartialFingerprints map[string]string
	Suppressions        []map[string]string
}

func sarifOf(t *testing.T, r *Report, o Options) readRun {
	t.Helper()
	var log struct {
		Schema  string `json:"$schema"`
		Version string
		Runs    []readRun
	}
	if err := json.Unmarshal([]byte(printed(t, "sarif", r, o)), &log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || !strings.Contains(log.Schema, "sarif-2.1.0") || len(log.Runs) != 1 {
		t.Fatalf("version %s, schema %s, %d runs", log.Version, log.Schema, len(log.Runs))
	}
	return log.Runs[0]
}

func TestSARIFHasWhatCodeScanningRequires(t *testing.T) {
	for name, r := range map[string]*Report{"realistic": realistic(), "hostile": hostile(), "huge": huge(500)} {
		t.Run(name, func(t *testing.T) {
			run := sarifOf(t, r, Options{Rules: ruleDoc})
			rules := run.Tool.Driver.Rules
			seen := make(map[string]bool)
			for _, res := range run.Results {
				if rule := rules[res.RuleIndex]; rule.ID != res.RuleID || rule.ShortDescription.Text == "" {
					t.Fatalf("a result of %s points to rule %+v", res.RuleID, rule)
				}
				if !slices.Contains([]string{"error", "warning", "note"}, res.Level) {
					t.Errorf("level %s", res.Level)
				}
				if res.Message.Text == "" || len(res.Locations) != 1 {
					t.Fatalf("message %q, locations %v", res.Message.Text, res.Locations)
				}
				where := res.Locations[0].PhysicalLocation
				uri := where.ArtifactLocation.URI
				if u, err := url.Parse(uri); err != nil || u.IsAbs() || strings.HasPrefix(u.Path, "/") || uri == "" {
					t.Errorf("uri %q: %v", uri, err)
				}
				if where.Region != nil && where.Region.StartLine < 1 {
					t.Errorf("region %+v", where.Region)
				}
				id := res.PartialFingerprints["sluice/v1"]
				if seen[id] || id == "" {
					t.Errorf("fingerprint %q twice or missing", id)
				}
				seen[id] = true
			}
			s := r.Summary()
			if want := s.Fail + s.Warn + s.Notes + s.Suppressed; len(run.Results) != want {
				t.Errorf("%d results, want %d", len(run.Results), want)
			}
		})
	}
}

func TestSARIFPointsToTheLine(t *testing.T) {
	for _, res := range sarifOf(t, realistic(), Options{}).Results {
		if res.RuleID != "maximum-lowered" {
			continue
		}
		where := res.Locations[0].PhysicalLocation
		if where.ArtifactLocation.URI != "config/crd/widgets.yaml" || where.Region == nil || where.Region.StartLine != 140 || where.Region.StartColumn != 21 {
			t.Errorf("it points to %+v", where)
		}
		return
	}
	t.Error("no result")
}

func TestSARIFLevelsAndSuppressions(t *testing.T) {
	levels := make(map[string]string)
	for _, res := range sarifOf(t, realistic(), Options{}).Results {
		levels[res.RuleID] = res.Level
		var want []map[string]string
		if res.RuleID == "column-removed" {
			want = []map[string]string{{
				"kind": "external", "status": "accepted", "justification": "kubectl shows the age anyway (until 2027-03-31)",
			}}
		}
		if diff := cmp.Diff(want, res.Suppressions); diff != "" {
			t.Errorf("%s: %s", res.RuleID, diff)
		}
	}
	want := map[string]string{
		"property-removed": "error", "enum-value-removed": "error", "maximum-lowered": "error", "validation-added": "error",
		"change-undecided": "error", "enum-value-added": "warning", "default-added": "warning", "old-crd-invalid": "note", "column-removed": "warning",
	}
	if diff := cmp.Diff(want, levels); diff != "" {
		t.Error(diff)
	}
}

func TestSARIFRulesCarryTheirDocumentation(t *testing.T) {
	driver := sarifOf(t, realistic(), Options{Rules: ruleDoc, Version: "1.2.3"}).Tool.Driver
	if driver.SemanticVersion != "1.2.3" {
		t.Errorf("version %s", driver.SemanticVersion)
	}
	doc, _ := ruleDoc("property-removed")
	for _, rule := range driver.Rules {
		if rule.ID != doc.ID {
			continue
		}
		if rule.ShortDescription.Text != doc.Title || rule.Help.Text != doc.Why+"\n\n"+doc.Help {
			t.Errorf("the rule is %+v", rule)
		}
		return
	}
	t.Error("the rule is missing")
}

func TestFingerprintsSurviveMovesAndRewording(t *testing.T) {
	ids := func(r *Report) []string {
		var all []string
		for _, res := range sarifOf(t, r, Options{}).Results {
			all = append(all, res.PartialFingerprints["sluice/v1"])
		}
		slices.Sort(all)
		return all
	}
	want := ids(realistic())
	moved := realistic()
	for i := range moved.CRDs {
		for j := range moved.CRDs[i].Findings {
			f := &moved.CRDs[i].Findings[j]
			f.Message = "in other words: " + f.Message
			f.Witness = nil
			if f.Position != nil {
				f.Position.Line += 40
				f.Position.File = "moved/" + f.Position.File
			}
		}
	}
	if diff := cmp.Diff(want, ids(moved)); diff != "" {
		t.Error(diff)
	}
	other := realistic()
	other.CRDs[0].Findings[0].Path = ".spec.otherMode"
	if cmp.Equal(want, ids(other)) {
		t.Error("another path has the same fingerprint")
	}
}

func TestFindingsThatDifferInWordsOnlyHaveFingerprintsOfTheirOwn(t *testing.T) {
	r := &Report{CRDs: []CRD{{Name: "c", Findings: []Finding{
		{Rule: "r", Outcome: Violation, Severity: Fail, Message: "one"}, {Rule: "r", Outcome: Violation, Severity: Fail, Message: "two"},
	}}}}
	results := sarifOf(t, r, Options{}).Results
	if a, b := results[0].PartialFingerprints["sluice/v1"], results[1].PartialFingerprints["sluice/v1"]; b != a+":2" {
		t.Errorf("fingerprints %s and %s", a, b)
	}
}

func TestFilesAreThoseOfTheRepository(t *testing.T) {
	for _, x := range []struct {
		file, root string
		want       Position // the zero value: none
	}{
		{"a/b.yaml", "", Position{"a/b.yaml", 7, 3}},
		{"./a/../b.yaml", "", Position{"b.yaml", 7, 3}},
		{"a b/ü.yaml", "", Position{"a b/ü.yaml", 7, 3}},
		{"/repo/a/b.yaml", "/repo", Position{"a/b.yaml", 7, 3}},
		{"/else/b.yaml", "/repo", Position{}},
		{"/repo/b.yaml", "", Position{}},
		{"../b.yaml", "", Position{}},
		{"..", "", Position{}},
		{"..a/b", "", Position{"..a/b", 7, 3}},
		{"-", "", Position{}},
		{"", "", Position{}},
		{"cluster", "", Position{}},
		{"git:HEAD:a/b.yaml", "", Position{File: "a/b.yaml"}},
		{"git:HEAD", "", Position{}},
		{"oci://host/a", "", Position{}},
	} {
		got, ok := (&Position{File: x.file, Line: 7, Column: 3}).inRepository(x.root)
		if got != x.want || ok != (x.want.File != "") {
			t.Errorf("%q in %q is %+v, %v", x.file, x.root, got, ok)
		}
	}
	if got, _ := (&Position{File: "a", Line: -1, Column: 3}).inRepository(""); got != (Position{File: "a"}) {
		t.Errorf("a column without a line: %+v", got)
	}
	if got := fileURI("a b/ü:x.yaml"); got != "a%20b/%C3%BC:x.yaml" {
		t.Errorf("URI %q", got)
	}
	if got := fileURI("c:x.yaml"); got != "./c:x.yaml" {
		t.Errorf("URI %q", got)
	}
}
