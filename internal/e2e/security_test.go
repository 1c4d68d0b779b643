package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice.dev/internal/testsource"
)

const root = "../.."

var (
	quoted   = regexp.MustCompile("^`([a-z0-9/]+)` (.+)$")
	testName = regexp.MustCompile(`^(Test|Fuzz)[A-Za-z0-9]+$`)
)

// Every row of the table of attacks names tests, and they exist.
func TestTheTestsOfTheTableOfAttacksExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "resolution-security.md"))
	if err != nil {
		t.Fatal(err)
	}
	attacks := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) == 3 && (strings.TrimSpace(cells[0]) == "attack" || strings.HasPrefix(cells[0], " ---")) || strings.HasPrefix(line, "| **") {
			continue
		}
		if len(cells) != 3 {
			t.Errorf("a row with %d cells: %s", len(cells), line)
			continue
		}
		attacks++
		for part := range strings.SplitSeq(strings.TrimSpace(cells[2]), "; ") {
			m := quoted.FindStringSubmatch(part)
			if m == nil {
				t.Errorf("%q is no package in quotes and names of tests", part)
				continue
			}
			for name := range strings.SplitSeq(m[2], ", ") {
				if !testName.MatchString(name) || !testsource.Has(t, root, m[1], name) {
					t.Errorf("%s has no test %s", m[1], name)
				}
			}
		}
	}
	// The list of what was published for other resolvers, and what is to be safe against as well, has 30 cases.
	if attacks < 30 {
		t.Errorf("the table has %d attacks", attacks)
	}
}
