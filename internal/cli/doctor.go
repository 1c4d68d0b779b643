package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/installation"
	"sluice.dev/report"
)

func newDoctor(e *env) *cobra.Command {
	var (
		f         clusterFlags
		namespace string
		timeout   time.Duration
		output    string
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with Sluice in a cluster",
		Long: `Doctor checks the parts of Sluice in a cluster, and changes nothing. It checks:

- programs and their images;
- the installed manifests, and if this version would install the same;
- webhooks with their Services and certificates;
- admission policies with their bindings and parameters;
- Leases and clocks;
- the conditions of Components and Deliveries.

For each problem it prints what to do.

Exit codes: 0 no problem, 1 problems (warn or fail), 2 error.`,
		Example: `  sluice doctor
  sluice doctor -o json | jq '.checks[] | select(.state == "fail")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			rest, _, err := f.connect()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("the time of --timeout %s is over", timeout))
			defer cancel()
			checks, err := installation.Diagnose(ctx, rest, namespace, e.now)
			if err != nil {
				return err
			}
			return tellChecks(e, checks, output)
		},
	}
	fs := cmd.Flags()
	f.addCluster(fs)
	fs.StringVar(&namespace, "sluice-namespace", installation.DefaultNamespace, "namespace where Sluice runs, as in sluice manifests --namespace")
	fs.DurationVar(&timeout, "timeout", time.Minute, "time limit for the whole command")
	addOutput(cmd, &output)
	return cmd
}

// diagnosis is the checks for programs.
type diagnosis struct {
	APIVersion string               `json:"apiVersion"`
	Kind       string               `json:"kind"`
	Checks     []installation.Check `json:"checks"`
}

// tellChecks prints the checks. Its error is errFindings where something is wrong.
func tellChecks(e *env, checks []installation.Check, output string) error {
	count := map[installation.State]int{}
	for _, c := range checks {
		count[c.State]++
	}
	if output == "json" {
		if err := encode(e.out, diagnosis{report.APIVersion, "Diagnosis", checks}); err != nil {
			return err
		}
	} else {
		for _, c := range checks {
			fmt.Fprintf(e.out, "%-4s  %s: %s\n", c.State, c.Subject, brief.OneLine(c.Message))
			if c.Fix != "" {
				fmt.Fprintf(e.out, "      fix: %s\n", c.Fix)
			}
		}
		fmt.Fprintf(e.out, "%d ok, %d warn, %d fail\n", count[installation.OK], count[installation.Warn], count[installation.Fail])
	}
	if count[installation.Warn]+count[installation.Fail] > 0 {
		return errFindings
	}
	return nil
}
