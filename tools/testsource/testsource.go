// Package testsource reads the tests of this module as text, for tests of statements about them in the documentation. It does not
// decide what must be there.
package testsource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Has reports whether a package, by its folder below root, has a test or fuzz target of a name. A package without tests is an error.
// It looks for func NAME( at the start of a line, so that a name in a comment does not count.
func Has(t testing.TB, root, pkg, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("there is no package %s with tests (%v)", pkg, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // a file of this module
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains("\n"+string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
