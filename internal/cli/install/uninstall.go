package install

// How does one get rid of Sluice? The command plans what to remove and what to keep, shows both, asks, and removes
// step by step. Objects of users are never removed without a flag: deleting a CRD would take all its objects
// along.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/installation"
)

// uninstallFlags are those of uninstall. DeleteObjects and DeleteNamespace are in the embedded options.
type uninstallFlags struct {
	command.ClusterFlags
	installation.Options

	dryRun, yes bool
	timeout     time.Duration
	output      string
	// sluiceNamespace is where Sluice runs.
	sluiceNamespace string
}

// NewUninstall returns the command uninstall.
func NewUninstall(e *command.Env) *cobra.Command {
	f := &uninstallFlags{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Sluice from a cluster",
		Long: `Uninstall removes everything that the manifests of Sluice and its programs have put into the cluster. It removes webhooks and bindings
of admission policies first, so that they do not refuse writes of the kinds that are left.

Some things stay, and the command lists them with the reason: Sluice's kinds that have objects, settings and other objects in its
namespace, and objects that deliveries and sluice apply have delivered. Beside Tekton, Tekton's CRD stays too.

Without --yes uninstall asks before it changes anything. If it is interrupted, run the same command again.

Exit codes: 0 removed, 2 error.`,
		Example: `  sluice uninstall --dry-run
  sluice uninstall --yes --delete-objects`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUninstall(cmd.Context(), e, f) },
	}
	fs := cmd.Flags()
	f.AddCluster(fs)
	fs.BoolVar(&f.DeleteObjects, "delete-objects", false, "remove Sluice's kinds even if they have objects, and the objects with them")
	addNamespace(fs, &f.sluiceNamespace)
	fs.BoolVar(&f.DeleteNamespace, "delete-namespace", false, "remove Sluice's namespace with everything in it")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print the objects to remove, and remove nothing")
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	fs.DurationVar(&f.timeout, "timeout", 5*time.Minute, "time limit for the whole command")
	command.AddOutput(cmd, &f.output, "text", "json")
	return cmd
}

// UninstallResult is the outcome for programs.
type UninstallResult struct {
	command.Document `json:",inline"`
	DryRun           bool `json:"dryRun,omitempty"`
	// Outcome is "planned", "removed", "nothing" or "failed".
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`

	*installation.Plan
}

// runUninstall plans, asks, and removes. In text, the plan is printed before the question; with -o json there is
// one document at the end, and --yes or --dry-run is needed. An error in the middle is in the document, and the
// same command continues.
func runUninstall(ctx context.Context, e *command.Env, f *uninstallFlags) error {
	rest, _, err := f.Connect()
	if err != nil {
		return err
	}
	cluster, err := installation.New(rest, f.sluiceNamespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("the time of --timeout %s is over", f.timeout))
	defer cancel()
	plan, err := cluster.Plan(ctx, f.Options)
	if err != nil {
		return err
	}
	text := f.output != "json"
	if text {
		printPlan(e, plan)
	}
	result := UninstallResult{Document: command.DocumentOf("UninstallResult"), DryRun: f.dryRun, Outcome: "planned", Plan: plan}
	switch {
	case plan.Empty():
		result.Outcome = "nothing"
	case f.dryRun:
	// A dry run and an empty plan need no question.
	case !f.yes:
		if err := command.Confirm(e, "Remove this from the cluster at "+rest.Host+"?"); err != nil {
			return err
		}
		fallthrough
	default:
		err = cluster.Remove(ctx, plan, f.Options, func(s *installation.Step) {
			fmt.Fprintf(e.Err, "removing %s (%d)\n", s.Title, len(s.Objects))
		})
		result.Outcome = "removed"
		if err != nil {
			result.Outcome, result.Error = "failed", brief.OneLine(err.Error())
		}
	}
	switch {
	case !text:
		return errors.Join(err, command.Encode(e.Out, result))
	case err == nil && result.Outcome == "nothing":
		fmt.Fprintln(e.Out, "Sluice is not installed in this cluster.")
	case err == nil && result.Outcome == "removed":
		fmt.Fprintln(e.Out, "Sluice is removed.")
	}
	return err
}

// printPlan prints what goes and what stays.
//
//	remove  Deployment sluice-system/sluice
//	stored  4 objects of deliveries.sluice.dev
//	keep    Namespace sluice-system: ...
func printPlan(e *command.Env, p *installation.Plan) {
	for _, s := range p.Steps {
		for _, o := range s.Objects {
			fmt.Fprintf(e.Out, "remove  %s\n", o)
		}
	}
	for _, s := range p.Stored {
		fmt.Fprintf(e.Out, "stored  %d objects of %s\n", s.Count, s.CRD)
	}
	for _, o := range p.Left {
		fmt.Fprintf(e.Out, "keep    %s: %s\n", o, o.Reason)
	}
}
