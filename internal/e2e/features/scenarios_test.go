package features

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice.dev/tools/testsource"
)

const root = "../../.."

var (
	tests    = regexp.MustCompile("`([a-z0-9/]+)` ((?:Test|Fuzz)[A-Za-z0-9]+(?:, (?:Test|Fuzz)[A-Za-z0-9]+)*)")
	testName = regexp.MustCompile(`\b(Test|Fuzz)[A-Za-z0-9]+\b`)
)

// untested are the scenarios without a test: a forced step between channels.
var untested = []int{13}

// Every row of the page of scenarios names tests, and they exist; and all scenarios are there.
func TestTheTestsOfTheScenariosExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "features-scenarios.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]bool{}
	rows, columns := 0, 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		if columns == 0 || strings.HasPrefix(line, "| ---") {
			columns = len(cells)
			continue
		}
		rows++
		if len(cells) != columns {
			t.Errorf("a row with %d cells: %s", len(cells), line)
		}
		n, err := strconv.Atoi(strings.TrimSpace(cells[0]))
		numbered := err == nil
		if numbered {
			found[n] = true
		}
		for i, cell := range cells {
			if i == 0 || numbered && i == 1 {
				continue
			}
			named := tests.FindAllStringSubmatch(cell, -1)
			if named == nil {
				t.Errorf("%q names no package in quotes with tests", cell)
			}
			count := 0
			for _, m := range named {
				pkg := m[1]
				for name := range strings.SplitSeq(m[2], ", ") {
					count++
					if !testsource.Has(t, root, pkg, name) {
						t.Errorf("%s has no test %s", pkg, name)
					}
				}
			}
			if all := testName.FindAllString(cell, -1); len(all) != count {
				t.Errorf("of %v some stand behind no package", all)
			}
		}
	}
	for n := 1; n <= 20; n++ {
		if found[n] == slices.Contains(untested, n) {
			t.Errorf("scenario %d: a row %v", n, found[n])
		}
	}
	if rows < 35 {
		t.Errorf("there are %d rows", rows)
	}
}
