package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// catchersFile has a line for each fault that a run caught: function, what the fault breaks, package and test, with tabs between them. That test
// alone is asked first, which takes seconds where all tests of a package and of those that depend on it take minutes.
const catchersFile = "tools/mutants/caught.tsv"

// catcher is a test that caught a fault.
type catcher struct{ pkg, test string }

// catchers has them by the key of the fault.
type catchers map[string]catcher

// readCatchers reads the file. Without a file there are none.
func readCatchers(path string) (catchers, error) {
	out := catchers{}
	text, err := os.ReadFile(path) //nolint:gosec // a file of the module
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(parts) != 4 {
			return nil, fmt.Errorf("%s: %q has not four parts", path, line)
		}
		out[parts[0]+"\t"+parts[1]] = catcher{parts[2], parts[3]}
	}
	return out, err
}

// writeTo writes the file, in the order of its lines, without those of faults that the table no longer has.
func (c catchers) writeTo(path string, all []fault) error {
	maps.DeleteFunc(c, func(key string, _ catcher) bool {
		return !slices.ContainsFunc(all, func(f fault) bool { return f.key() == key })
	})
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&out, "%s\t%s\t%s\n", key, c[key].pkg, c[key].test)
	}
	return os.WriteFile(path, []byte(out.String()), 0o644) //nolint:gosec // a file of the module, for all to read
}
