package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sluice.dev/localcluster/internal/component"
)

// readyReport is the output of start when the cluster is ready.
type readyReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Kubeconfig and Dir are absolute paths.
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	Dir        string `json:"dir"`
	// PID is the process to signal to stop the cluster.
	PID int `json:"pid"`
	// KubernetesVersion is the version that the API server reports.
	KubernetesVersion string `json:"kubernetesVersion"`
}

// startCommand is the command for people, who stop it with Ctrl-C, and for programs, which read one line
// and close the pipe.
func startCommand(s streams) *cobra.Command {
	var flags clusterFlags
	var output string
	var untilEOF bool
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start a cluster and keep it running until SIGINT or SIGTERM",
		Long: `Start a cluster in the foreground. One line on stdout tells when it is ready, and where. Everything else goes to stderr.

SIGINT or SIGTERM stops it. Without --dir, everything it made is then removed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output: %q is neither text nor json", output)
			}
			ctx, cancel := untilStopped(cmd.Context())
			defer cancel()
			if untilEOF {
				go func() {
					drain(s.in)
					cancel()
				}()
			}
			return start(ctx, s, flags, output)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "form of the line on stdout: text or json")
	cmd.Flags().BoolVar(&untilEOF, "until-stdin-closes", false, "stop also when stdin is closed, as it is when the starting program ends")
	return cmd
}

// start returns when the cluster has stopped. That it was stopped before it was ready is no error,
// because somebody asked for it.
func start(ctx context.Context, s streams, flags clusterFlags, output string) error {
	c, err := flags.start(ctx, s)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil //nolint:nilerr // stopped before it was ready, as asked
	case err != nil:
		return err
	}
	version, err := component.Version()
	if err != nil {
		return s.stop(c, err)
	}
	report := readyReport{
		APIVersion: "localcluster.sluice.dev/v1alpha1", Kind: "Ready",
		Kubeconfig: c.Kubeconfig, Server: c.Server, Dir: c.Dir, PID: os.Getpid(), KubernetesVersion: version,
	}
	if err := printReady(s.out, report, output); err != nil {
		return s.stop(c, err)
	}
	select {
	case <-ctx.Done():
		return s.stop(c, nil)
	case <-c.Failed():
		return s.stop(c, c.Err())
	}
}

// printReady writes the one line on stdout. Both forms say where the kubeconfig is; only JSON has the
// rest.
func printReady(w io.Writer, report readyReport, output string) error {
	if output == "json" {
		line, err := json.Marshal(report)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", line)
		return err
	}
	_, err := fmt.Fprintf(w, "ready kubeconfig=%s server=%s\n", quoteSpaces(report.Kubeconfig), report.Server)
	return err
}

// quoteSpaces keeps the line splittable at spaces.
func quoteSpaces(path string) string {
	if strings.ContainsAny(path, " \t\n\r\"") {
		return strconv.Quote(path)
	}
	return path
}

// drain reads until the end of file.
func drain(r io.Reader) { _, _ = io.Copy(io.Discard, r) }
