package install

// What is wrong with Sluice in this cluster? Package installation looks; this file prints what it found, with the
// way to mend it, and turns problems into the exit code. Without rights to look at a part, the check of that part
// says so.

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/installation"
)

// NewDoctor returns the command doctor.
func NewDoctor(e *command.Env) *cobra.Command {
	var (
		f         command.ClusterFlags
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
- accounts that read the Secrets of all namespaces;
- Leases and clocks;
- the conditions of Components and Deliveries.

For each problem it prints what to do.

Exit codes: 0 no problem, 1 problems (warn or fail), 2 error.`,
		Example: `  sluice doctor
  sluice doctor -o json | jq '.checks[] | select(.state == "fail")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rest, _, err := f.Connect()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("the time of --timeout %s is over", timeout))
			defer cancel()
			checks, err := installation.Diagnose(ctx, rest, namespace, e.Now)
			if err != nil {
				return err
			}
			return tellChecks(e, checks, output)
		},
	}
	fs := cmd.Flags()
	f.AddCluster(fs)
	addNamespace(fs, &namespace)
	fs.DurationVar(&timeout, "timeout", time.Minute, "time limit for the whole command")
	command.AddOutput(cmd, &output, "text", "json")
	return cmd
}

// Diagnosis has the checks, for programs.
type Diagnosis struct {
	command.Document `json:",inline"`
	Checks           []installation.Check `json:"checks"`
}

// tellChecks prints the checks. Its error is [command.ErrFindings] where something is wrong.
//
//	ok    SUBJECT: ...
//	warn  SUBJECT: ...
//	      fix: ...
//	1 ok, 1 warn, 0 fail
func tellChecks(e *command.Env, checks []installation.Check, output string) error {
	count := map[installation.State]int{}
	for _, c := range checks {
		count[c.State]++
	}
	if output == "json" {
		if err := command.Encode(e.Out, Diagnosis{command.DocumentOf("Diagnosis"), checks}); err != nil {
			return err
		}
	} else {
		for _, c := range checks {
			fmt.Fprintf(e.Out, "%-4s  %s: %s\n", c.State, c.Subject, brief.OneLine(c.Message))
			if c.Fix != "" {
				fmt.Fprintf(e.Out, "      fix: %s\n", c.Fix)
			}
		}
		fmt.Fprintf(e.Out, "%d ok, %d warn, %d fail\n", count[installation.OK], count[installation.Warn], count[installation.Fail])
	}
	return command.FindingsIf(count[installation.Warn]+count[installation.Fail] > 0)
}

// addNamespace adds the flag for the namespace of Sluice. It was called --sluice-namespace once, which is still taken.
func addNamespace(fs *pflag.FlagSet, namespace *string) {
	fs.StringVarP(namespace, "namespace", "n", installation.DefaultNamespace, "namespace where Sluice runs, as in sluice manifests --namespace")
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "sluice-namespace" {
			name = "namespace"
		}
		return pflag.NormalizedName(name)
	})
}
