package compat

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"sluice.dev/report"
)

// TestHarmBetweenVersions holds the verdict about upgrades whose harm, if any, is what one version does to objects of another one.
func TestHarmBetweenVersions(t *testing.T) {
	data, err := os.ReadFile("testdata/between.txtar")
	if err != nil {
		t.Fatal(err)
	}
	sides := map[string]string{}
	for _, f := range txtar.Parse(data).Files {
		sides[f.Name] = string(f.Data)
	}
	tried := 0
	for name, text := range sides {
		name, isOld := strings.CutSuffix(name, "/old")
		if !isOld {
			continue
		}
		tried++
		t.Run(name, func(t *testing.T) {
			got := check(t, patched(t, text), patched(t, sides[name+"/new"]))
			if unsafe := got.Verdict != report.Safe; unsafe != strings.HasPrefix(name, "unsafe/") {
				t.Errorf("%s:\n%s", got.Verdict, listed(got))
			}
		})
	}
	if tried < 29 {
		t.Errorf("%d upgrades", tried)
	}
}
