// Package cli is the command line of localcluster. It reads flags and prints what a cluster reports. The exit code is 0 for success
// and 2 for a failure; exec returns the code of its command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"sluice.dev/localcluster/internal/cluster"
	"sluice.dev/localcluster/internal/component"
)

// exitCannot differs from 1, with which commands that exec runs end most often.
const exitCannot = 2

// exitCode is an error that only carries an exit code. The message is printed already.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// streams are the process's own.
type streams struct {
	in       *os.File
	out, err io.Writer
}

func (s streams) note(line string) { _, _ = fmt.Fprintln(s.err, "localcluster: "+oneLine(line)) }

// stop stops the cluster and returns err, which decides the exit code. It prints its own failures.
func (s streams) stop(c *cluster.Cluster, err error) error {
	if stopping := c.Stop(); stopping != nil {
		s.note("stop the cluster: " + stopping.Error())
		if err == nil {
			return exitCode(exitCannot)
		}
	}
	return err
}

// Run runs the command line and returns the exit code.
func Run(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	s := streams{in: stdin, out: stdout, err: stderr}
	if len(args) == 0 || args[0] != componentName {
		// Kubernetes' packages define flags here, which cobra would offer with every command. They also log to stderr, which is for
		// the user. The components log to files.
		pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)
		klog.SetLogger(logr.Discard())
	}
	root := &cobra.Command{
		Use:           "localcluster",
		Short:         "Run a small, real Kubernetes control plane on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(startCommand(s), execCommand(s), versionCommand(s), componentCommand(s))

	err := root.Execute()
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	default:
		s.note(err.Error())
		return exitCannot
	}
}

// clusterFlags are those of the commands that start a cluster.
type clusterFlags struct {
	options cluster.Options
	timeout time.Duration
}

// add declares the flags on a command. Paths are made absolute when the cluster starts, because it
// changes the working directory.
func (f *clusterFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.options.Dir, "dir", "", "folder for all data, kept between runs (default: a temporary one)")
	flags.StringVar(&f.options.Kubeconfig, "kubeconfig", "", "where to write the administrator's kubeconfig (default: in the folder)")
	flags.IntVar(&f.options.Port, "port", 0, "the API server's port on 127.0.0.1 (default: a free one)")
	flags.StringArrayVar(&f.options.APIServerArgs, "apiserver-arg", nil, "a flag for the kube-apiserver, as name=value (repeatable)")
	flags.BoolVar(&f.options.WithoutControllers, "without-controllers", false, "leave the kube-controller-manager out")
	flags.BoolVar(&f.options.NoFsync, "no-fsync", false, "do not wait for the disk: faster, but a crash of the machine may lose data (always so without --dir)")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long to wait for the cluster to be ready")
}

// start starts the cluster and returns when it is ready.
// The timeout counts from here, and its error says what the cluster waited for last.
func (f *clusterFlags) start(ctx context.Context, s streams) (*cluster.Cluster, error) {
	o := f.options
	o.Now, o.Note = time.Now, s.note //nolint:forbidigo // the command line is where the clock comes in
	var err error
	if o.Executable, err = os.Executable(); err != nil {
		return nil, err
	}
	if !o.WithoutControllers && !component.Has(component.ControllerManager) {
		o.WithoutControllers = true
		s.note("KUBEBUILDER_ASSETS has no kube-controller-manager: namespaces stay in phase Terminating, and no garbage is collected")
	}
	for _, path := range []*string{&o.Dir, &o.Kubeconfig} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
	}
	if o.Port < 0 || o.Port > 65535 {
		return nil, fmt.Errorf("--port: %d is not between 0 and 65535", o.Port)
	}
	if f.timeout <= 0 {
		return nil, fmt.Errorf("--timeout: %s is not positive", f.timeout)
	}
	late := fmt.Errorf("the cluster was not ready within %s", f.timeout)
	starting, cancel := context.WithTimeoutCause(ctx, f.timeout, late)
	defer cancel()
	return cluster.Start(starting, o)
}

// untilStopped returns a context that ends with the first signal to stop. A second signal then has its usual effect.
func untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, cancel)
	return ctx, cancel
}

// oneLine puts a message of several lines into one, because each line on stderr is one remark.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(strings.TrimSpace(text), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
