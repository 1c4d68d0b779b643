package cli

import (
	"errors"
	"io"
	"time"
)

// errFindings ends a command that has told its findings.
var errFindings = errors.New("findings")

// env is what commands have of the world around them.
type env struct {
	// name is how the program was called.
	name string
	// version is that of sluice.
	version  string
	in       io.Reader
	out, err io.Writer
	now      func() time.Time
	// terminal tells whether out and err are terminals.
	outTTY, errTTY bool
	width          int
	getenv         func(string) string
}

// resultKind is the annotation of a command with the kind of its document, which has an outcome and an error.
const resultKind = "sluice.dev/result"

// noDocument in its place says that the command prints objects, which must not have an error among them.
const noDocument = "none"

// outcomeFailed is the outcome in the document of a command that could not do its work.
const outcomeFailed = "failed"
