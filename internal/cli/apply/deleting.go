package apply

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"sluice.dev/apply"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
)

// deleteFlagsOf are the flags of commands that delete objects.
type deleteFlagsOf struct{ allowDeleteCRDs, allowDeleteNamespaces, yes bool }

func (f *deleteFlagsOf) addDelete(fs *pflag.FlagSet, verb string) {
	fs.BoolVar(&f.allowDeleteCRDs, "allow-delete-crds", false, verb+"CRDs with stored objects, and the objects with them")
	fs.BoolVar(&f.allowDeleteNamespaces, "allow-delete-namespaces", false, verb+"namespaces that are older than the app or have objects of others, with all objects in them")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask before deleting objects; Sluice asks only if standard input and standard error are terminals")
}

// checkNeedsPrune judges the flags of a command that deletes only with --prune.
func (f *deleteFlagsOf) checkNeedsPrune(prune bool) error {
	for name, set := range map[string]bool{"--allow-delete-crds": f.allowDeleteCRDs, "--allow-delete-namespaces": f.allowDeleteNamespaces} {
		if set && !prune {
			return errors.New(name + " is for --prune")
		}
	}
	return nil
}

// confirmDeletion asks on a terminal before objects are deleted.
func (f *deleteFlagsOf) confirmDeletion(e *command.Env, what string, deletes int) error {
	if deletes == 0 || f.yes || !e.ErrTTY || !command.Interactive(e) {
		return nil
	}
	return command.Confirm(e, what+"?")
}

// mayPrune stops a prune that would delete more than it may, and asks on a terminal.
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

// keptByPrune gives what a prune leaves although the source no longer has it, because something else depends on it.
func keptByPrune(p *apply.Plan) []ObjectResult {
	var out []ObjectResult
	for i := range p.Removals {
		if r := &p.Removals[i]; r.Action == apply.Keep && !r.Retained {
			out = append(out, ObjectResult{ID: r.ID, Action: r.Action, Reason: r.Reason})
		}
	}
	return out
}

// showRemovals tells what will be deleted, before it is.
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
