package conversion_test

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"sluice.dev/conversion"
)

func TestThePageListsTheRules(t *testing.T) {
	page, err := os.ReadFile("../docs/conversion.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, r := range conversion.Rules() {
		level := cmp.Or(string(r.Level), "note")
		if r.ID == "conversion-not-reached" {
			level = "undecided"
		}
		if r.Varies {
			level += " or objects-ratcheted"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", r.ID, level, r.Title)
		if !regexp.MustCompile(`^conversion(-[a-z]+)+$`).MatchString(r.ID) || len(r.Why) < 80 || !strings.HasSuffix(r.Why, ".") || !strings.HasSuffix(r.Help, ".") || strings.HasSuffix(r.Title, ".") {
			t.Errorf("%s is not documented", r.ID)
		}
	}
	if !strings.Contains(string(page), "| --- | --- | --- |\n"+rows.String()+"\n") {
		t.Errorf("docs/conversion.md lacks the table\n%s", rows.String())
	}
}
