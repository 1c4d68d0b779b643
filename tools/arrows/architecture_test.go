package arrows

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureNamesWhatExists holds the paths in docs/architecture.md against the tree, and the packages in its picture against the
// table.
func TestArchitectureNamesWhatExists(t *testing.T) {
	const root = "../.."
	data, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range regexp.MustCompile("`([a-zA-Z0-9_.-]+(?:/[a-zA-Z0-9_.-]+)+)`").FindAllStringSubmatch(string(data), -1) {
		if strings.Contains(m[1], "NAME") {
			continue
		}
		found++
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil {
			t.Errorf("docs/architecture.md names %s: %v", m[1], err)
		}
	}
	for _, m := range regexp.MustCompile(`\[([a-z]+(?:/[a-z]+)*)\]`).FindAllStringSubmatch(string(data), -1) {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil && m[1] != "operators" {
			t.Errorf("the picture in docs/architecture.md has %s: %v", m[1], err)
		}
		found++
	}
	if found < 50 {
		t.Errorf("only %d paths were found", found)
	}
}
