// Package cli is the command line of sluice: one file per command. It parses flags, calls the libraries and prints;
// it decides nothing itself.
package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	ExitOK       = 0 // nothing to object
	ExitFindings = 1 // findings at a failing level
	ExitFailed   = 2 // could not do it: usage, input, access
)

// Main runs the command line args (without the program's name) and returns the exit code. Results go to stdout,
// diagnostics to stderr.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "Change Kubernetes APIs without breaking those who use them",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.Execute(); err != nil {
		fmt.Fprintf(stderr, "sluice: %v\n", err)
		return ExitFailed
	}
	return ExitOK
}
