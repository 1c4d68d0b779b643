package command

import (
	"fmt"

	"sluice.dev/internal/limit"
)

// maxFile bounds the files that a user names.
const maxFile = 4 << 20

// ReadFileBounded reads a file that a user has named.
func ReadFileBounded(name string) ([]byte, error) { return limit.ReadFile(name, maxFile) }

// ReadInput reads a file, or standard input for -.
func (e *Env) ReadInput(name string) ([]byte, error) {
	if name != "-" {
		return ReadFileBounded(name)
	}
	data, err := limit.ReadAll(e.In, maxFile)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return data, nil
}
