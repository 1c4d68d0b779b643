package compat

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"sluice.dev/report"
)

// similar reads the changes of testdata/similar.txtar, by rule.
func similar(t testing.TB) map[string]Example {
	t.Helper()
	data, err := os.ReadFile("testdata/similar.txtar")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Example{}
	for _, f := range txtar.Parse(data).Files {
		id, turn, _ := strings.Cut(f.Name, "/")
		e := out[id]
		switch turn {
		case "old":
			e.Old = string(f.Data)
		case "new":
			e.New = string(f.Data)
		default:
			t.Fatalf("%s is neither RULE/old nor RULE/new", f.Name)
		}
		out[id] = e
	}
	return out
}

func TestSimilarChangesAreNotReported(t *testing.T) {
	all := similar(t)
	if len(all) < 60 {
		t.Errorf("%d changes", len(all))
	}
	for id, e := range all {
		t.Run(id, func(t *testing.T) {
			r, ok := Lookup(id)
			if !ok {
				t.Fatal("no such rule")
			}
			old, new, err := crdsOf(&r, e)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range check(t, old, new).Findings {
				if f.Severity == report.Fail || f.Rule == id {
					t.Errorf("%s: %s", f.Rule, f.Message)
				}
			}
		})
	}
}
