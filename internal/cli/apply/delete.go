package apply

// What does it take to delete an app? The inventory says which objects the app has. Some of them must not go
// without a word: CRDs with objects of others, namespaces with foreign objects, and what an annotation keeps. This
// file has the command delete, and what apply --prune shares with it: the flags that allow such deletions, the
// question on a terminal, and the lines that tell what goes and what stays.

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice.dev/apply"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
)

// deleteFlags are those of delete: those of all commands that change an app by its name, those of all that delete,
// and its own.
type deleteFlags struct {
	changeFlags
	deleteFlagsOf

	keepProtected bool
}

// NewDelete returns the command delete.
func NewDelete(e *command.Env) *cobra.Command {
	f := &deleteFlags{}
	cmd := &cobra.Command{
		Use:   "delete APP",
		Short: "Delete an app: all objects of its inventory, and the inventory",
		Long: `Delete deletes the objects of an app in the opposite order of an apply, and waits until they are gone. These objects stay:

- objects that another app has taken over;
- objects that an annotation of Helm, kapp, Flux, Argo CD or cli-utils keeps, with their namespaces;
- namespaces that are older than the app, unless you give --allow-delete-namespaces.

If a CRD has stored objects of others, or a namespace has objects of others, delete deletes nothing. To delete them too, give
--allow-delete-crds or --allow-delete-namespaces. To keep that CRD or namespace and delete the rest, give --keep-protected. On a
terminal the command asks first.

If delete is interrupted, run the same command again to resume it.

Exit codes: 0 deleted, 1 objects were or would be kept, 2 error.`,
		Example: `  sluice delete shop -n default --dry-run
  sluice delete shop -n default`,
		Args:        oneApp,
		Annotations: map[string]string{command.ResultKind: "DeleteResult"},
		RunE:        func(cmd *cobra.Command, args []string) error { return runDelete(cmd.Context(), e, f, args[0]) },
	}
	f.addTo(cmd, "print the objects to delete, and delete nothing")
	f.addDelete(cmd.Flags(), "delete ")
	cmd.Flags().BoolVar(&f.keepProtected, "keep-protected", false, "keep CRDs and namespaces with objects of others, and delete the rest")
	return cmd
}

// DeleteResult is the outcome for programs.
type DeleteResult struct {
	command.Document `json:",inline"`
	App              string         `json:"app"`
	Namespace        string         `json:"namespace"`
	DryRun           bool           `json:"dryRun,omitempty"`
	Outcome          string         `json:"outcome"`
	Error            string         `json:"error,omitempty"`
	Objects          []ObjectResult `json:"objects"`
	// Warnings are what the API server warns of.
	Warnings []apply.Warning `json:"warnings,omitempty"`
}

// runDelete connects, and deletes the app under its lock. A dry run takes no lock. If a Delivery applies the app,
// it warns first, because the Delivery creates again what is deleted.
func runDelete(ctx context.Context, e *command.Env, f *deleteFlags, app string) error {
	told := &teller{Env: e, lines: e.Out, quiet: f.output == "json"}
	applier, err := connectApplier(&f.ClusterFlags, apply.Options{Now: e.Now, Observe: told.showEvent, LockTimeout: f.lockTimeout})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("the time of --timeout %s is over", f.timeout))
	defer cancel()
	tellKeeper(ctx, e, applier, app, "create again what is deleted")
	// It may run several times under the lock: each time it plans anew.
	once := func(applier *connection) error { return deleteOnce(ctx, e, f, applier, told, app) }
	if f.dryRun {
		return once(applier)
	}
	return underLock(ctx, e, applier, app, once)
}

// announceRemovals tells what will be deleted and kept, and returns how many objects will be deleted. It is called
// before the first deletion, so that the list stands there while the user is asked.
func announceRemovals(plan *apply.Deletion, told *teller) (deletes int) {
	for i := range plan.Removals {
		switch r := &plan.Removals[i]; r.Action {
		case apply.Delete:
			told.printLine("will be deleted: %s", removalLine(r))
			deletes++
		case apply.Keep:
			told.printLine("will be kept: %s: %s", r.ID, r.Reason)
		case apply.Create, apply.Update, apply.Replace, apply.Unchanged, apply.Forget:
		}
	}
	return deletes
}

// addRemovals adds what has become of the objects, or would become of them, and counts those that are deleted and
// kept. Objects that are only forgotten, since they are gone or belong to another app now, are told here: they are
// no deletions to announce.
func (d *DeleteResult) addRemovals(plan *apply.Deletion, told *teller, would bool) (deleted, kept int) {
	for i := range plan.Removals {
		r := &plan.Removals[i]
		d.Objects = append(d.Objects, ObjectResult{ID: r.ID, Action: r.Action, Reason: r.Reason})
		switch r.Action {
		case apply.Delete:
			deleted++
		case apply.Keep:
			kept++
		case apply.Forget:
			word := "forgotten"
			if r.Stays() {
				word = "left alone"
			}
			if would {
				word = "would be " + word
			}
			told.printLine("%s: %s: %s", word, r.ID, r.Reason)
		case apply.Create, apply.Update, apply.Replace, apply.Unchanged:
		}
	}
	return deleted, kept
}

// deleteOnce plans and deletes. It returns [apply.ErrChanged] if another run has changed the app since the plan
// was made; the caller then calls it again. Any other outcome is printed, with [command.ErrFindings] if objects
// are or would be kept. In a dry run and after an error the result says what would become of the objects.
func deleteOnce(ctx context.Context, e *command.Env, f *deleteFlags, applier *connection, told *teller, app string) error {
	namespace := applier.namespace
	plan, err := applier.PlanDeletion(ctx, apply.DeletionRequest{
		App: app, Namespace: namespace, AllowDeleteCRDs: f.allowDeleteCRDs, AllowDeleteNamespaces: f.allowDeleteNamespaces, KeepProtected: f.keepProtected,
	})
	if err != nil {
		return err
	}
	for _, n := range plan.Notes() {
		fmt.Fprintln(e.Err, "note:", n)
	}
	// Before the question, so that the user knows what she is asked about.
	deletes := announceRemovals(plan, told)
	result := DeleteResult{
		Document: command.DocumentOf("DeleteResult"), App: app, Namespace: namespace, DryRun: f.dryRun, Outcome: outcomeTried, Objects: []ObjectResult{},
	}
	err = plan.Err()
	if err == nil && !f.dryRun {
		err = f.confirmDeletion(e, fmt.Sprintf("delete %s of app %s/%s", brief.Count(deletes, "object"), namespace, app), deletes)
	}
	if err == nil && !f.dryRun {
		// Nothing was deleted yet, and the plan is out of date.
		if err = applier.Delete(ctx, plan); errors.Is(err, apply.ErrChanged) {
			return err
		}
		result.Outcome = "deleted"
	}
	told.wipeBar()
	result.Warnings = plan.Warnings()
	told.printWarnings(result.Warnings)
	deleted, kept := result.addRemovals(plan, told, f.dryRun || err != nil)
	switch {
	// Nothing was deleted yet: the plan is judged as a whole.
	case errors.Is(err, apply.ErrProtected):
		result.Outcome, result.Error = OutcomeBlocked, brief.OneLine(err.Error())
		fmt.Fprintf(e.Err, "sluice: %s\n", brief.OneLine(fmt.Errorf("%w; --keep-protected deletes the rest", err).Error()))
		err = command.ErrFindings
	case err != nil:
		result.Outcome, result.Error = command.OutcomeFailed, brief.OneLine(err.Error())
		if ctx.Err() != nil {
			fmt.Fprintln(e.Err, "note: what was done so far stays; when the cause is mended, the same command goes on")
		}
	case kept > 0:
		result.Outcome, err = OutcomeBlocked, command.ErrFindings
	}
	if f.output == "json" {
		return errors.Join(err, command.Encode(e.Out, result))
	}
	if result.Error != "" {
		return err
	}
	if err == nil || errors.Is(err, command.ErrFindings) {
		word := "deleted"
		if f.dryRun {
			word = "to be deleted"
		}
		told.printLine("app %s: %d %s, %d kept", app, deleted, word, kept)
	}
	return err
}

// deleteFlagsOf are the flags of commands that delete objects. yes answers the question on a terminal.
type deleteFlagsOf struct{ allowDeleteCRDs, allowDeleteNamespaces, yes bool }

// addDelete adds the flags. verb begins their help texts, such as "delete " or "let --prune delete ".
func (f *deleteFlagsOf) addDelete(fs *pflag.FlagSet, verb string) {
	fs.BoolVar(&f.allowDeleteCRDs, "allow-delete-crds", false, verb+"CRDs with stored objects, and the objects with them")
	fs.BoolVar(&f.allowDeleteNamespaces, "allow-delete-namespaces", false, verb+"namespaces that are older than the app or have objects of others, with all objects in them")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask before deleting objects; Sluice asks only if standard input and standard error are terminals")
}

// checkNeedsPrune judges the flags of a command that deletes only with --prune. Without --prune nothing is
// deleted, and a flag that has no effect is more likely a mistake than a wish.
func (f *deleteFlagsOf) checkNeedsPrune(prune bool) error {
	for name, set := range map[string]bool{"--allow-delete-crds": f.allowDeleteCRDs, "--allow-delete-namespaces": f.allowDeleteNamespaces} {
		if set && !prune {
			return errors.New(name + " is for --prune")
		}
	}
	return nil
}

// confirmDeletion asks on a terminal before objects are deleted. It does not ask if nothing is deleted, with
// --yes, or where nobody sees the question: then scripts would hang.
func (f *deleteFlagsOf) confirmDeletion(e *command.Env, what string, deletes int) error {
	if deletes == 0 || f.yes || !e.ErrTTY || !command.Interactive(e) {
		return nil
	}
	return command.Confirm(e, what+"?")
}

// mayPrune stops a prune that would delete more than it may, and asks on a terminal. The limit protects from a
// source that is empty or half of what it was by mistake, such as a wrong folder: half of the app, or
// --max-deletes.
func (d *deliverer) mayPrune() error {
	deletes := d.plan.Count(apply.Delete)
	most, err := apply.MostDeletes(d.flags.maxDeletes, d.plan.Existing())
	if err != nil {
		return fmt.Errorf("--max-deletes %w", err)
	}
	if deletes > most {
		fmt.Fprintf(d.Err, "sluice: --prune would delete %d of the %d objects of app %s, more than %d; nothing was changed. If the source is as it should be, allow it by --max-deletes %d\n",
			deletes, d.plan.Existing(), d.flags.app, most, deletes)
		return command.ErrFindings
	}
	if d.flags.dryRun != dryRunNone {
		return nil
	}
	return d.flags.confirmDeletion(d.Env, fmt.Sprintf("delete %s of app %s", brief.Count(deletes, "object"), d.flags.app), deletes)
}

// removalLine describes a removal, and the objects that are deleted with it.
func removalLine(r *apply.Removal) string {
	if r.Takes == "" {
		return r.String()
	}
	return r.String() + ", with " + r.Takes
}

// keptByPrune gives what a prune leaves although the source no longer has it, because something else depends on
// it. An annotation that retains an object is a wish of its owner, so such objects are not among them.
func keptByPrune(p *apply.Plan) []ObjectResult {
	var out []ObjectResult
	for i := range p.Removals {
		if r := &p.Removals[i]; r.Action == apply.Keep && !r.Retained {
			out = append(out, ObjectResult{ID: r.ID, Action: r.Action, Reason: r.Reason})
		}
	}
	return out
}

// showRemovals tells what will be deleted, before it is. Without --prune it only counts them. What is kept or
// forgotten for a reason that a user can do nothing about is told with --verbose.
func (d *deliverer) showRemovals() {
	if n := d.plan.Orphans(); n > 0 {
		fmt.Fprintf(d.Err, "note: app %s has %s that the source no longer has; --prune deletes them\n", d.flags.app, brief.Count(n, "object"))
	}
	if !d.flags.prune {
		return
	}
	will := "will"
	if d.flags.dryRun != dryRunNone {
		will = "would"
	}
	for i := range d.plan.Removals {
		switch r := &d.plan.Removals[i]; r.Action {
		case apply.Delete:
			switch {
			case d.flags.dryRun == dryRunNone:
				d.told.printLine("will be deleted: %s", removalLine(r))
			case d.flags.dryRun == dryRunClient || r.Takes != "": // the server's dry run tells of the others
				d.told.printLine("would delete %s", removalLine(r))
			}
		case apply.Forget:
			if r.Stays() {
				d.told.printLine("%s be left alone: %s: %s", will, r.ID, r.Reason)
			} else if d.flags.verbose {
				d.told.printLine("%s be forgotten: %s: %s", will, r.ID, r.Reason)
			}
		case apply.Keep:
			if !r.Retained || d.flags.verbose {
				d.told.printLine("%s be kept: %s: %s", will, r.ID, r.Reason)
			}
		case apply.Create, apply.Update, apply.Replace, apply.Unchanged:
		}
	}
}
