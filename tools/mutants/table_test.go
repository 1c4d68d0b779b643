package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// The table is held against the code by every run of the tests, so that it does not rot between two runs of the faults.
func TestEveryFaultFitsTheCode(t *testing.T) {
	all := allFaults()
	if len(all) < 40 {
		t.Errorf("%d faults, and at least 40 are wanted", len(all))
	}
	seen, keys := map[string]int{}, map[string]bool{}
	code := newModule(root)
	for _, f := range all {
		file, text, err := f.applyTo(code)
		if err != nil {
			t.Error(err)
		}
		if n, twice := seen[file+string(text)]; twice && err == nil {
			t.Errorf("fault %d is fault %d once more", f.number, n)
		}
		seen[file+string(text)] = f.number
		if keys[f.key()] {
			t.Errorf("fault %d breaks the same in the same function as another: %q", f.number, f.broken)
		}
		keys[f.key()] = true
		if strings.HasSuffix(f.broken, ".") {
			t.Errorf("fault %d: %q ends with a full stop", f.number, f.broken)
		}
		for _, pkg := range f.tests {
			if info, err := os.Stat(filepath.Join(root, pkg)); err != nil || !info.IsDir() {
				t.Errorf("fault %d names the package %s, which is none", f.number, pkg)
			}
		}
	}
}
