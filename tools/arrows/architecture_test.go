package arrows

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureNamesWhatExists holds the paths in docs/architecture.md and in its picture against the tree, and functions that the
// page names as `F` in `path.go` against the file.
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
	for _, m := range regexp.MustCompile("`(?:\\w+\\.)?(\\w+)`\\s+in\\s+`([\\w./-]+\\.go)`").FindAllStringSubmatch(string(data), -1) {
		found++
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m[2])))
		if err != nil {
			continue // told above
		}
		if declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|\t?(var |const )?)` + m[1] + `\b`); !declared.Match(text) {
			t.Errorf("docs/architecture.md looks for %s in %s, which does not declare it", m[1], m[2])
		}
	}
	picture, err := os.ReadFile(filepath.Join(root, "docs", "images", "architecture.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`class="code mid"[^>]*>([^<]*)<`).FindAllStringSubmatch(string(picture), -1) {
		found++
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil {
			t.Errorf("the picture of docs/architecture.md has %s: %v", m[1], err)
		}
	}
	if found < 60 {
		t.Errorf("only %d paths were found", found)
	}
}
