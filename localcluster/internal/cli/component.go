package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice.dev/localcluster/internal/component"
)

const componentName = "component"

// componentCommand is the command by which this binary runs as its own child. Users do not call it.
func componentCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:    componentName + " NAME -- FLAGS",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			// This comes before anything runs concurrently: even if the parent is gone already, a wrong call must be reported.
			if err := component.Known(args[0]); err != nil {
				return err
			}
			ctx, cancel := untilStopped(cmd.Context())
			defer cancel()
			ended := make(chan error, 2)
			go func() {
				// The parent holds the other end, so the read ends when the parent is gone.
				drain(s.in)
				ended <- nil
			}()
			go func() { ended <- component.Run(ctx, args[0], args[1:]) }()
			if err := <-ended; err != nil {
				// The parent looks for this line in the log, and shows the user why the component ended.
				_, _ = fmt.Fprintln(s.err, "error: "+oneLine(err.Error()))
				return exitCode(exitCannot)
			}
			return nil
		},
	}
}
