package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// fault is one row of the table.
type fault struct {
	number int
	// file is relative to the module's root, with slashes.
	file string
	// old is a part of the file's text that occurs exactly once, and new its replacement.
	old, new string
	// broken describes the failure, as a sentence without a full stop.
	broken string
	// tests are the packages whose tests have to catch it, relative to the module's root, in the order in which they are
	// asked. nil: that of the file, then those that depend on it.
	tests []string
}

// errTable says that a row of the table does not fit the code any more.
var errTable = errors.New("the table of faults does not fit the code")

// apply returns the text of the file with the fault. The error wraps errTable where the row no longer fits.
func (f *fault) apply(dir string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.file))) //nolint:gosec // a file of this module
	if err != nil {
		return nil, fmt.Errorf("%w: fault %d: %w", errTable, f.number, err)
	}
	switch n := bytes.Count(text, []byte(f.old)); {
	case f.old == "" || f.old == f.new:
		return nil, fmt.Errorf("%w: fault %d changes nothing", errTable, f.number)
	case f.broken == "":
		return nil, fmt.Errorf("%w: fault %d does not say what it breaks", errTable, f.number)
	case n != 1:
		return nil, fmt.Errorf("%w: fault %d (%s): its text occurs %d times in %s, and not once:\n%s", errTable, f.number, f.broken, n, f.file, indent(f.old))
	}
	return bytes.Replace(text, []byte(f.old), []byte(f.new), 1), nil
}

func indent(s string) string { return "\t" + strings.ReplaceAll(s, "\n", "\n\t") }
