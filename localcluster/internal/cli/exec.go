package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// execCommand is the command for scripts and CI: whatever the command does, the cluster is gone when this
// process ends.
func execCommand(s streams) *cobra.Command {
	var flags clusterFlags
	cmd := &cobra.Command{
		Use:                   "exec [flags] -- COMMAND [ARGUMENT…]",
		DisableFlagsInUseLine: true,
		Short:                 "Start a cluster, run a command with KUBECONFIG set, stop the cluster",
		Long: `Start a cluster, run the command with KUBECONFIG set to the administrator's kubeconfig, and stop the cluster again.

The exit code is the command's (128 and the signal's number when a signal ended it), or 2 when the cluster could not be
started or ended before the command did.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := exec.LookPath(args[0])
			if err != nil {
				return err
			}
			if path, err = filepath.Abs(path); err != nil {
				return err
			}
			// A cluster changes the working directory of this process to its folder. The command runs in the directory of the
			// caller.
			here, err := os.Getwd()
			if err != nil {
				return err
			}
			command := &exec.Cmd{Path: path, Args: args, Dir: here, Stdin: s.in, Stdout: s.out, Stderr: s.err}
			ctx, cancel := untilStopped(cmd.Context())
			defer cancel()
			return runInCluster(ctx, s, flags, command)
		},
	}
	flags.add(cmd)
	// Everything after the command's name belongs to the command, also flags.
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// runInCluster starts the cluster, then the command, and waits for either to end. The exit code of the
// command is that of this process, unless the cluster could not be stopped.
func runInCluster(ctx context.Context, s streams, flags clusterFlags, command *exec.Cmd) error {
	c, err := flags.start(ctx, s)
	if err != nil {
		return err
	}
	// From here on, signals are for the command. This process waits for it and then stops the cluster.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if ctx.Err() != nil {
		return s.stop(c, context.Cause(ctx))
	}

	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	if err := command.Start(); err != nil {
		return s.stop(c, err)
	}
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	for {
		select {
		case err := <-done:
			return s.stop(c, codeOf(err))
		case received := <-signals:
			// A terminal sends SIGINT to the whole group, so the command has it already.
			if received != syscall.SIGINT || !term.IsTerminal(int(s.in.Fd())) {
				_ = command.Process.Signal(received)
			}
		case <-c.Failed():
			_ = command.Process.Kill()
			<-done //nolint:errcheck // it was killed
			return s.stop(c, fmt.Errorf("the cluster ended before the command did: %w", c.Err()))
		}
	}
}

// codeOf returns the exit code of this process for the end of a command.
func codeOf(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitCode(128 + int(status.Signal()))
	}
	return exitCode(exit.ExitCode())
}
