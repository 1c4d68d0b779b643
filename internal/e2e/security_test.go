package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice.dev/tools/testsource"
)

const root = "../.."

var (
	quoted   = regexp.MustCompile("^`([a-z0-9/]+)` (.+)$")
	testName = regexp.MustCompile(`^(Test|Fuzz)[A-Za-z0-9]+$`)
)

// Every row of the tables of attacks and of faults names tests, and they exist.
func TestTheTestsOfTheTablesExist(t *testing.T) {
	// The list of attacks that were published for other resolvers, and what is to be safe against as well, has 30 cases.
	for table, least := range map[string]int{"resolution-security.md": 30, "resolution-faults.md": 15} {
		if rows := rowsWithTests(t, table); rows < least {
			t.Errorf("%s has %d rows", table, rows)
		}
	}
}

func rowsWithTests(t *testing.T, table string) (rows int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", table))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), " | tests |\n")
	for line := range strings.Lines(body) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(cells[0], " ---") || strings.HasPrefix(line, "| **") {
			continue
		}
		if len(cells) != 3 {
			t.Errorf("a row with %d cells: %s", len(cells), line)
			continue
		}
		rows++
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
	return rows
}
