// Package command has what the commands share: how one is run, its exit codes and flags, progress and output. It knows no command.
package command

import (
	"errors"
	"io"
	"time"
)

// ErrFindings ends a command that has told its findings.
var ErrFindings = errors.New("findings")

// Env is what commands have of the world around them.
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

// NoDocument in its place says that the command prints objects, which must not have an error among them.
const NoDocument = "none"

// OutcomeFailed is the outcome in the document of a command that could not do its work.
const OutcomeFailed = "failed"
