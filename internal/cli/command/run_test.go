package command_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"sluice.dev/internal/cli/command"
)

// TestEachErrorHasALine runs commands that end in several errors.
func TestEachErrorHasALine(t *testing.T) {
	one, two, three := errors.New("a.yaml: no kind"), errors.New("b.yaml:\nno name"), errors.New("c.yaml: no name")
	for want, err := range map[string]error{
		"sluice: a.yaml: no kind\n": one,
		"sluice: a.yaml: no kind\nsluice: b.yaml: no name\nsluice: c.yaml: no name\n": errors.Join(errors.Join(one, two), three),
		// Words around joined errors are not lost.
		"sluice: reading: a.yaml: no kind; c.yaml: no name\n": fmt.Errorf("reading: %w", errors.Join(one, three)),
		"sluice: a.yaml: no kind and c.yaml: no name\n":       fmt.Errorf("%w and %w", one, three),
	} {
		var out, errs strings.Builder
		e := &command.Env{Out: &out, Err: &errs}
		code := command.Run(t.Context(), e, nil, func(*command.Env) *cobra.Command {
			return &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return err }}
		})
		if errs.String() != want || out.String() != "" || code != command.ExitFailed {
			t.Errorf("exit code %d, %q and %q; want %q", code, out.String(), errs.String(), want)
		}
	}
}
