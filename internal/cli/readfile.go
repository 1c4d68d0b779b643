package cli

import (
	"fmt"
	"os"

	"sluice.dev/internal/limit"
)

// maxFile bounds the files that a user names.
const maxFile = 4 << 20

// readFileBounded reads a file that a user has named.
func readFileBounded(name string) ([]byte, error) {
	f, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := limit.ReadAll(f, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

// readInput reads a file, or standard input for -.
func (e *env) readInput(name string) ([]byte, error) {
	if name != "-" {
		return readFileBounded(name)
	}
	data, err := limit.ReadAll(e.in, maxFile)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return data, nil
}
