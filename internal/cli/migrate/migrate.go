// Package migrate has the commands that change stored objects, so that a CRD can change: migrate and fix. Package internal/migrate migrates.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/migrate"
)

// migrateFlags are those of migrate. A rate of 0 leaves the pace to the API server.
type migrateFlags struct {
	command.ClusterFlags

	all, dryRun, allowLoss bool
	rate                   float64
	output                 string
}

// New returns the command migrate.
func New(e *command.Env) *cobra.Command {
	f := &migrateFlags{}
	cmd := &cobra.Command{
		Use:   "migrate CRD... | migrate --all",
		Short: "Rewrite stored objects in the storage version, so that an older version of the CRD can be removed",
		Long: `Migrate rewrites the stored objects of a CRD in its storage version. Then it takes the other versions out of status.storedVersions, so that
you can remove them from the CRD.

It asks the API server to do the work where that serves StorageVersionMigrations. Otherwise it sends an empty patch to each object. Nothing
in an object changes but what any write changes: the API server fills in defaults and runs admission.

Entries of metadata.managedFields that name an older version are rewritten as well. Without that, the API server refuses every server-side
apply to the object once the version is gone.

If the server refuses an object, migrate names it with the reason and leaves status.storedVersions alone. The same holds if the CRD
changes meanwhile. If the storage version lacks fields of stored objects, and no webhook converts them, migrate writes nothing: the fields
would be lost.

If migrate is interrupted, run the same command again to resume it. Objects that are written already are skipped.

Exit codes: 0 migrated, or nothing to do; 1 objects are or would be refused, or would lose fields; 2 error.`,
		Example: `  sluice migrate widgets.example.com --dry-run
  sluice migrate widgets.example.com
  sluice migrate --all`,
		Args: func(_ *cobra.Command, args []string) error {
			if f.all != (len(args) == 0) {
				return errors.New("name the CRDs, such as widgets.example.com, or give --all for each CRD with several versions in status.storedVersions")
			}
			return nil
		},
		Annotations: map[string]string{command.ResultKind: "MigrationResult"},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return f.completeNames(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return migrateAll(cmd.Context(), e, f, args) },
	}
	fs := cmd.Flags()
	f.AddCluster(fs)
	fs.BoolVar(&f.all, "all", false, "migrate each CRD with several versions in status.storedVersions")
	fs.BoolVar(&f.dryRun, "dry-run", false, "send each write as a dry run: print how many objects would be written, and which are refused")
	fs.BoolVar(&f.allowLoss, "allow-loss", false, "rewrite objects also if the storage version lacks fields that they have")
	fs.Float64Var(&f.rate, "rate", 0, "writes in a second, such as 50 (default: as many as the API server takes)")
	command.AddOutput(cmd, &f.output, "text", "json")
	return cmd
}

// completeNames returns the CRDs of the cluster that have several stored versions; none if there is no answer
// soon. A shell waits for it, so it gives up after two seconds and shows no error.
func (f *migrateFlags) completeNames(ctx context.Context, args []string) []string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	config, _, err := f.Connect()
	if err != nil {
		return nil
	}
	m, err := migrate.New(config, migrate.Options{})
	if err != nil {
		return nil
	}
	names, err := m.CRDs(ctx)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) })
}

// Result is what became of the CRDs, for programs.
type Result struct {
	command.Document `json:",inline"`
	DryRun           bool             `json:"dryRun,omitempty"`
	Outcome          string           `json:"outcome"`
	Error            string           `json:"error,omitempty"`
	CRDs             []migrate.Result `json:"crds"`
}

// migrateAll migrates the CRDs one after the other, and prints what became of each as soon as it is known. It
// stops at the first error; the document of -o json then has the results so far. It returns [command.ErrFindings]
// if objects were refused, or would lose fields.
func migrateAll(ctx context.Context, e *command.Env, f *migrateFlags, names []string) error {
	if f.rate != 0 && f.rate < 1 {
		return fmt.Errorf("--rate %g: it is at least 1, such as 50", f.rate)
	}
	config, _, err := f.Connect()
	if err != nil {
		return err
	}
	var bar *command.Progress
	m, err := migrate.New(config, migrate.Options{DryRun: f.dryRun, AllowLoss: f.allowLoss, Rate: f.rate, Progress: func(done, total int64) { bar.SetOf(done, max(0, total)) }})
	if err != nil {
		return err
	}
	if f.all {
		if names, err = m.CRDs(ctx); err != nil {
			return err
		}
	}
	out := Result{Document: command.DocumentOf("MigrationResult"), DryRun: f.dryRun, Outcome: migrate.Current, CRDs: []migrate.Result{}}
	bad := false
	for _, name := range names {
		bar = e.Progress("migrating "+name, 0)
		r, failed := m.Migrate(ctx, name)
		bar.Done()
		out.CRDs = append(out.CRDs, r)
		bad = bad || r.Outcome == migrate.Refused || r.Outcome == migrate.Lossy
		// The document says how far all of it came: the worst of its CRDs.
		if out.Outcome = worse(out.Outcome, r.Outcome); failed != nil {
			err = failed
			if ctx.Err() == nil {
				out.Error = brief.OneLine(err.Error())
			} else {
				out.Error = "interrupted; run the same command again to resume it"
			}
			break
		}
		if f.output != "json" {
			printResult(e, f, r)
		}
	}
	switch {
	case f.output == "json":
		err = errors.Join(err, command.Encode(e.Out, out))
	case len(names) == 0:
		fmt.Fprintln(e.Out, "nothing to do: no CRD has several versions in status.storedVersions")
	}
	if err != nil {
		return err
	}
	return command.FindingsIf(bad)
}

// outcomes from the best to the worst.
var outcomes = []string{migrate.Current, migrate.Migrated, migrate.Tried, migrate.Refused, migrate.Lossy, command.OutcomeFailed}

// worse is the worse of two outcomes.
func worse(a, b string) string {
	return outcomes[max(slices.Index(outcomes, a), slices.Index(outcomes, b))]
}

// printResult prints what became of a CRD. Refused objects come first, then the sentence that sums up.
//
//	default/old-widget: spec.size: Required value
//	widgets.example.com: the API server refuses 1 of 120 objects, so no version was taken out of status.storedVersions. ...
func printResult(e *command.Env, f *migrateFlags, r migrate.Result) {
	for _, note := range r.Notes {
		fmt.Fprintf(e.Err, "note: %s: %s\n", r.CRD, note)
	}
	for _, refused := range r.Refusals {
		fmt.Fprintf(e.Out, "%s: %s\n", refused.Object, refused.Reason)
	}
	if more := r.Refused - int64(len(r.Refusals)); more > 0 {
		fmt.Fprintf(e.Out, "and %d more\n", more)
	}
	would := map[bool]string{true: "would be", false: "was"}[f.dryRun]
	switch r.Outcome {
	case migrate.Current:
		fmt.Fprintf(e.Out, "%s: nothing to do; %s in version %s\n", r.CRD, brief.Count(r.Objects, "object"), r.StorageVersion)
	case migrate.Migrated, migrate.Tried:
		fmt.Fprintf(e.Out, "%s: %s migrated to version %s; %s\n", r.CRD, would, r.StorageVersion, countsOf(r))
	case migrate.Refused:
		fmt.Fprintf(e.Out, "%s: the API server refuses %d of %s, so no version %s taken out of status.storedVersions. Change these objects (kubectl edit), then run it again\n",
			r.CRD, r.Refused, brief.Count(r.Objects, "object"), would)
	case migrate.Lossy:
		fmt.Fprintf(e.Out, "%s: %d of %s have fields that version %s lacks, so nothing was written. Add the fields to the version or convert them in a webhook; --allow-loss drops them\n",
			r.CRD, r.Refused, brief.Count(r.Objects, "object"), r.StorageVersion)
	}
}

// countsOf says in numbers what was done: how many objects were written, and by whom, and what is no longer in
// status.storedVersions. Counts of zero are left out.
func countsOf(r migrate.Result) string {
	parts := []string{fmt.Sprintf("%d of %s written", r.Written, brief.Count(r.Objects, "object"))}
	if r.ByServer {
		parts = append(parts, "the others by the API server")
	} else if r.Earlier > 0 {
		parts = append(parts, fmt.Sprintf("%d had been written before", r.Earlier))
	}
	if r.Gone > 0 {
		parts = append(parts, fmt.Sprintf("%d were deleted meanwhile", r.Gone))
	}
	if r.Owners > 0 {
		parts = append(parts, fmt.Sprintf("the managedFields of %d rewritten", r.Owners))
	}
	if len(r.Trimmed) > 0 {
		parts = append(parts, "status.storedVersions without "+strings.Join(r.Trimmed, " and "))
	}
	return strings.Join(parts, ", ")
}
