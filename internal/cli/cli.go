// Package cli is the command line of sluice: one file per command. It parses flags, calls the libraries and prints; it
// decides nothing itself.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/apply"
	"sluice.dev/internal/cli/check"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/cli/features"
	"sluice.dev/internal/cli/install"
	"sluice.dev/internal/cli/migrate"
	"sluice.dev/internal/cli/resolve"
	_ "sluice.dev/internal/gcpercent"  // before other packages allocate
	_ "sluice.dev/internal/inflection" // before a library reads files of the working directory
)

// Exit codes of every command; package command says when each is returned.
const (
	ExitOK       = command.ExitOK
	ExitFindings = command.ExitFindings
	ExitFailed   = command.ExitFailed
)

// memoryLimit is the memory in bytes from which on garbage is collected as often as need be, unless the environment variable
// GOMEMLIMIT says otherwise: a large change must not take a gigabyte for its garbage.
const memoryLimit = 832 << 20

// interruptTime is how long a command may go on after an interrupt, to release what it holds.
const interruptTime = time.Minute

// Main runs the command line args (without the program's name) and returns the exit code. Results go to stdout,
// diagnostics to stderr. An interrupt ends it with ExitFailed, a second one at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)                                                                               // the next signal does what it does to any program
	e := &command.Env{Name: os.Args[0], In: stdin, Out: stdout, Err: stderr, Now: time.Now, Getenv: os.Getenv} //nolint:forbidigo // the one place where the clock comes in
	e.OutTTY, e.Width = command.Terminal(stdout)
	e.ErrTTY, _ = command.Terminal(stderr)
	// The libraries of Kubernetes write to klog: a server has it in its log, and of a command's business it says nothing.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	return endsSoonAfter(ctx, interruptTime, stderr, func() int { return runCommand(ctx, args, e) })
}

// endsSoonAfter returns the exit code of run, or ExitFailed if ctx is done and run goes on for longer than
// patience. The goroutine of run goes on in that case; the process ends anyway.
func endsSoonAfter(ctx context.Context, patience time.Duration, stderr io.Writer, run func() int) int {
	code := make(chan int, 1)
	go func() { code <- run() }()
	select {
	case c := <-code:
		return c
	case <-ctx.Done():
	}
	select {
	case c := <-code:
		return c
	case <-time.After(patience):
		fmt.Fprintln(stderr, "sluice: interrupted")
		return ExitFailed
	}
}

// runCommand runs the command line with the given environment. It is what tests call in place of [Main].
func runCommand(ctx context.Context, args []string, e *command.Env) int {
	if e.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	e.Version = versionOfBuild()
	return command.Run(ctx, e, args, newRoot)
}

// Command returns the commands, for their man pages and completions. They cannot be run.
func Command() *cobra.Command { return newRoot(&command.Env{}) }

// newRoot returns the command sluice with all commands below it. As a plugin of kubectl, help texts call it
// kubectl sluice. An unknown flag gets the most similar one as a hint.
func newRoot(e *command.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Change Kubernetes APIs without breaking those who use them",
		Long: `Sluice lets people change Kubernetes APIs without breaking those who use them.

Exit codes of every command: 0 all is well; 1 the answer is no, such as a failing finding, a difference or an object that is kept (the help of
the command says which); 2 error.`,
		Args: command.NoArgs,
	}
	version := root.Flags().Bool("version", false, "version for sluice")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version { // cobra's own flag prints with a template
			fmt.Fprintln(e.Out, thisVersion())
			return nil
		}
		return cmd.Help()
	}
	if strings.HasPrefix(filepath.Base(e.Name), "kubectl-") { // kubectl runs it as a plugin
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl sluice"}
	}
	root.SetIn(e.In)
	root.SetOut(e.Out)
	root.SetErr(e.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		hint := ""
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			hint = flagHint(cmd, unknown.GetSpecifiedName())
		}
		return fmt.Errorf("%w%s (%s --help shows the flags)", err, hint, cmd.CommandPath())
	})
	root.AddCommand(check.New(e), check.NewRules(e), check.NewExplain(e), features.New(e), newVersion(e), newServe(e), install.NewManifests(e), install.NewUninstall(e), install.NewDoctor(e), newUI(e),
		check.NewFilter(e), apply.New(e), apply.NewDiff(e), apply.NewLs(e), apply.NewHistory(e), apply.NewAdopt(e), apply.NewDelete(e), migrate.New(e), migrate.NewFix(e), resolve.New(e))
	refuseUnknown(root)
	return root
}

// flagHint suggests the flag of a command that is most like name. A flag before the first command may belong to any of them. It is empty
// for none.
func flagHint(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := brief.Nearest(name, names); near != "" {
		return fmt.Sprintf(", did you mean %s --%s?", cmd.CommandPath(), near)
	}
	if cmd.HasParent() {
		return ""
	}
	for _, c := range cmd.Commands() {
		if hint := flagHint(c, name); hint != "" {
			return hint
		}
	}
	return ""
}

// refuseUnknown makes errors of a shell that completion does not know, and of a command that help does not: cobra
// would print a help text and call it a success. Both commands are made by cobra, so they are changed after it has
// made them.
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
