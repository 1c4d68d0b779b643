// Package command has what the commands share: how one is run, its exit codes and flags, progress and output. It knows no command.
package command

import (
	"errors"
	"fmt"
	"io"
	"time"

	"sluice.dev/internal/limit"
)

// ErrFindings ends a command that has printed failing findings.
var ErrFindings = errors.New("findings")

// FindingsIf returns [ErrFindings] if something fails. It ends a command that has printed its result. The exit
// code is then [ExitFindings], and nothing more is printed.
func FindingsIf(failing bool) error {
	if failing {
		return ErrFindings
	}
	return nil
}

// Env is the environment of a command: its input and output, clock and variables. Tests give a command other
// streams, another clock and other variables by it.
type Env struct {
	// Name is how the program was called.
	Name string
	// Version is that of sluice.
	Version  string
	In       io.Reader
	Out, Err io.Writer
	Now      func() time.Time
	// OutTTY and ErrTTY tell whether Out and Err are terminals.
	OutTTY, ErrTTY bool
	// Width is that of the terminal in columns.
	Width int
	// Getenv reads the environment.
	Getenv func(string) string
}

// ResultKind is the annotation of a command with the kind of its document, which has an outcome and an error.
const ResultKind = "sluice.dev/result"

// NoDocument marks a command that prints objects, in place of a kind: it must not print an error among them.
// Manifests that are piped to kubectl are such objects.
const NoDocument = "none"

// OutcomeFailed is the outcome in the document of a command that could not do its work.
const OutcomeFailed = "failed"

// maxFile bounds the files that a user names.
const maxFile = 4 << 20

// ReadFileBounded reads a file that a user has named. One of more than 4 MiB is an error, so that a wrong path,
// such as a device, does not fill the memory.
func ReadFileBounded(name string) ([]byte, error) { return limit.ReadFile(name, maxFile) }

// ReadInput reads a file, or standard input for -. A file of more than 4 MiB is an error.
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
