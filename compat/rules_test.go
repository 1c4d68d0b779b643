package compat

import (
	"regexp"
	"strings"
	"testing"

	"sluice.dev/report"
)

func TestRulesAreDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`).MatchString(r.ID) {
			t.Errorf("%q is no kebab-case ID", r.ID)
		}
		if seen[r.ID] {
			t.Errorf("%s is there twice", r.ID)
		}
		seen[r.ID] = true
		if r.Title == "" || strings.HasSuffix(r.Title, ".") {
			t.Errorf("%s: title %q is empty or ends with a full stop", r.ID, r.Title)
		}
		if len(r.Why) < 80 || len(r.Help) < 10 || !strings.HasSuffix(r.Why, ".") || !strings.HasSuffix(r.Help, ".") {
			t.Errorf("%s: why or help is missing, short or unfinished", r.ID)
		}
		if _, ok := r.Level.Default(); !ok && r.Level != "" {
			t.Errorf("%s: level %q does not exist", r.ID, r.Level)
		}
		if r.whole == nil && r.claim == nil {
			t.Errorf("%s: has to look at CRDs, or to claim gaps", r.ID)
		}
		if got, ok := Lookup(r.ID); !ok || got.Title != r.Title {
			t.Errorf("%s is not found", r.ID)
		}
	}
	if _, ok := Lookup("no-such-rule"); ok {
		t.Error("found a rule that does not exist")
	}
}

func TestUnsafeExamplesAreReported(t *testing.T) {
	for _, r := range Rules() {
		t.Run(r.ID, func(t *testing.T) {
			f, err := r.demonstrate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if f.Outcome == report.Violation && !r.Varies && f.Level != r.Level && f.Level != report.RefusedByAPIServer {
				t.Errorf("level %s, documented as %s", f.Level, r.Level)
			}
			if s, _ := f.Level.Default(); f.Outcome == report.Violation && f.Severity != s {
				t.Errorf("severity %q at level %s", f.Severity, f.Level)
			}
			if r.Level == "" && f.Outcome != report.Note || f.Outcome == report.Undecided && r.ID != "schema-changed" && r.ID != "list-map-keys-changed" {
				t.Errorf("outcome %s: %s", f.Outcome, f.Reason)
			}
			if f.Message == "" || strings.HasSuffix(f.Message, ".") {
				t.Errorf("message %q is empty or ends with a full stop", f.Message)
			}
			if r.claim != nil && f.Outcome == report.Violation && (f.Witness == nil || f.Witness.Effect == "") {
				t.Error("no witness")
			}
			if len(f.SchemaPath) == 0 {
				t.Error("no path in the document")
			}
		})
	}
}

func TestTheWayOutHarmsNoStoredObject(t *testing.T) {
	for _, r := range Rules() {
		t.Run(r.ID, func(t *testing.T) {
			if (r.Instead == "") != (r.ID == "old-crd-invalid") {
				t.Fatalf("what to write instead: %q", r.Instead)
			}
			if r.Instead == "" {
				return
			}
			old, new, err := crdsOf(&r, Example{r.Unsafe.Old, r.Instead})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range check(t, old, new).Findings {
				if f.Severity == report.Fail && f.Level != report.WritersRefused {
					t.Errorf("the way out fails by %s at %q: %s %s", f.Rule, f.Level, f.Message, f.Reason)
				}
				if f.Rule == r.ID && r.ID != "validation-rule-added" {
					t.Errorf("the way out is reported: %s", f.Message)
				}
			}
		})
	}
}

// crdsOf returns the whole CRDs of one of the rule's examples; one of them is nil if the example has it so.
func crdsOf(r *Rule, e Example) (old, new *crd, err error) {
	if old, err = ExampleCRD(e.Old, r.InSpec()); err != nil {
		return nil, nil, err
	}
	new, err = ExampleCRD(e.New, r.InSpec())
	return old, new, err
}
