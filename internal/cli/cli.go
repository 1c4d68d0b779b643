// Package cli is the command line of sluice: one file per command. It parses flags, calls the libraries and prints; it
// decides nothing itself.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
)

// Exit codes of every command.
const (
	ExitOK       = 0 // nothing to object
	ExitFindings = 1 // findings at a failing level
	ExitFailed   = 2 // could not do it: usage, input, access
)

// GCPercent is how much the heap may grow between collections, in percent, unless the environment variable GOGC says
// otherwise. A comparison makes much garbage and keeps little: this halves the collector's share, for some megabytes.
const GCPercent = 400

// errFindings ends a command that has told its findings.
var errFindings = errors.New("findings")

// env is what commands have of the world around them.
type env struct {
	in       io.Reader
	out, err io.Writer
	now      func() time.Time
	// terminal tells whether out and err are terminals.
	outTTY, errTTY bool
	width          int
	getenv         func(string) string
}

// Main runs the command line args (without the program's name) and returns the exit code. Results go to stdout,
// diagnostics to stderr. An interrupt ends it with ExitFailed.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	e := &env{in: stdin, out: stdout, err: stderr, now: time.Now, getenv: os.Getenv} //nolint:forbidigo // the one place where the clock comes in
	e.outTTY, e.width = terminal(stdout)
	e.errTTY, _ = terminal(stderr)
	// The libraries of Kubernetes write to klog: a server has it in its log, and of a command's business it says nothing.
	handler := slog.DiscardHandler
	if len(args) > 0 && args[0] == "serve" {
		handler = slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
	}
	klog.SetSlogLogger(slog.New(handler))
	return run(ctx, args, e)
}

func run(ctx context.Context, args []string, e *env) int {
	if e.getenv("GOGC") == "" {
		debug.SetGCPercent(GCPercent)
	}
	out := &checkedWriter{w: e.out}
	e.out = out
	root := newRoot(e)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if out.err != nil && (err == nil || errors.Is(err, errFindings)) {
		err = fmt.Errorf("writing the result: %w", out.err)
	}
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errFindings):
		return ExitFindings
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	}
	fmt.Fprintf(e.err, "sluice: %s\n", brief.OneLine(err.Error()))
	if f := cmd.Flags().Lookup("output"); f != nil && f.Value.String() == "json" && !out.written && cmd.Annotations[resultKind] != noDocument {
		kind := cmp.Or(cmd.Annotations[resultKind], "Error")
		_ = encode(out, failure{report.APIVersion, kind, outcomeFailed, brief.OneLine(err.Error())}) // the exit code tells that there was an error
	}
	return ExitFailed
}

// resultKind is the annotation of a command with the kind of its document, which has an outcome and an error.
const resultKind = "sluice.dev/result"

// noDocument in its place says that the command prints objects, which must not have an error among them.
const noDocument = "none"

// failure is what a command prints for programs that has not come as far as its document.
type failure struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Outcome    string `json:"outcome"`
	Error      string `json:"error"`
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

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Change Kubernetes APIs without breaking those who use them",
		Long: `Sluice lets people change Kubernetes APIs without breaking those who use them.

Exit codes of every command: 0 nothing to object, 1 findings at a failing level, 2 could not do it.`,
		Version:       thisVersion().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(e.in)
	root.SetOut(e.out)
	root.SetErr(e.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w (%s --help shows the flags)", err, cmd.CommandPath())
	})
	root.AddCommand(newCheck(e), newRules(e), newExplain(e), newFeatures(e), newVersion(e), newServe(e), newManifests(e), newUninstall(e), newDoctor(e),
		newApply(e), newDiff(e), newLs(e), newHistory(e), newAdopt(e), newDelete(e), newResolve(e))
	refuseUnknown(root)
	return root
}

// refuseUnknown makes errors of a shell that completion does not know, and of a command that help does not: cobra would
// print a help text and call it a success.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args = cobra.NoArgs
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help":
			c.RunE = func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err != nil || about == root && len(rest) > 0 {
					return fmt.Errorf("no help for %q: there is no such command; sluice help lists them", strings.Join(args, " "))
				}
				return about.Help()
			}
		}
	}
}
