package command

// How does a command end? With an exit code that scripts can rely on: 0 for done, 1 for an answer of no, 2 for an
// error. Errors go to standard error, a line each. If a program reads the output (-o json), it gets a document
// even for an error, unless something was printed before.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice.dev/internal/brief"
)

// Exit codes of every command.
const (
	// ExitOK: the command did its work, and nothing is wrong.
	ExitOK = 0
	// ExitFindings: findings at a failing level, a blocked apply, a difference (diff) or a refused transition (verify).
	ExitFindings = 1
	// ExitFailed: the command could not do its work: wrong usage, bad input or no access.
	ExitFailed = 2
)

// Run runs the command that newCommand makes and returns the exit code. It tells an error on standard error, and
// as a document where JSON is asked for. An error of writing the result counts as well: a full disk must not look
// like success.
func Run(ctx context.Context, e *Env, args []string, newCommand func(*Env) *cobra.Command) int {
	out := &checkedWriter{w: e.Out}
	e.Out = out
	cmd := newCommand(e)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	// cobra would print the help of the group above, and the exit code would be 0.
	ran, err := refuseUnknownHelp(cmd, args)
	if err == nil {
		ran, err = cmd.ExecuteContextC(ctx)
	}
	if out.err != nil && (err == nil || errors.Is(err, ErrFindings)) {
		err = fmt.Errorf("writing the result: %w", out.err)
	}
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrFindings):
		return ExitFindings
	// What an interrupted call says, such as "context canceled", helps nobody.
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	}
	for _, one := range splitErrors(err) {
		fmt.Fprintf(e.Err, "sluice: %s\n", brief.OneLine(one.Error()))
	}
	// A program that parses the output gets a document, unless it has one, or expects objects.
	if f := ran.Flags().Lookup("output"); f != nil && f.Value.String() == "json" && !out.written && ran.Annotations[ResultKind] != NoDocument {
		kind := cmp.Or(ran.Annotations[ResultKind], "Error")
		_ = Encode(out, Failure{DocumentOf(kind), OutcomeFailed, brief.OneLine(err.Error())}) // the exit code tells that there was an error
	}
	return ExitFailed
}

// splitErrors returns the errors that [errors.Join] has joined, each of which is told on a line of its own. An
// error that is not joined is a list of one.
func splitErrors(err error) []error {
	several, ok := err.(interface{ Unwrap() []error }) // an error that wraps joined ones adds words
	if !ok || errors.Join(several.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	var out []error
	for _, one := range several.Unwrap() {
		out = append(out, splitErrors(one)...)
	}
	return out
}

// refuseUnknownHelp refuses the help of a command that does not exist: cobra would print that of the command above and call it a success.
func refuseUnknownHelp(root *cobra.Command, args []string) (*cobra.Command, error) {
	group, rest, err := root.Find(args)
	help := slices.Contains(rest, "--help") || slices.Contains(rest, "-h")
	// cobra finds an error again. What begins with "_" is its own, and a flag may have a value.
	// A command that completes its arguments takes some.
	if err != nil || !help || !group.HasSubCommands() || group.ValidArgsFunction != nil || strings.HasPrefix(rest[0], "_") || strings.HasPrefix(rest[0], "-") {
		return root, nil //nolint:nilerr // see above
	}
	return group, NoArgs(group, rest)
}

// Failure is the document of a command that fails before it has a document of its own.
type Failure struct {
	Document `json:",inline"`
	Outcome  string `json:"outcome"`
	Error    string `json:"error"`
}

// checkedWriter remembers the first error, so that a result that could not be written is no success.
type checkedWriter struct {
	w   io.Writer
	err error
	// written: something was.
	written bool
}

// Write implements io.Writer.
func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.written = c.written || n > 0
	if c.err == nil {
		c.err = err
	}
	return n, err
}
