package apply

// How does a user get an app back whose inventory is lost or incomplete? Every object that Sluice applies for an
// app carries a mark with the name of the app. sluice ls --orphans lists the objects that have a mark and are in
// no inventory, and sluice adopt writes them into one. For example, after a restore of a namespace without its
// ConfigMaps, sluice adopt shop -n default lets sluice apply --prune delete again what the source no longer has.

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sluice.dev/apply"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
)

// NewAdopt returns the command adopt.
func NewAdopt(e *command.Env) *cobra.Command {
	f := &changeFlags{}
	cmd := &cobra.Command{
		Use:   "adopt APP",
		Short: "Rebuild the inventory of an app from the objects in the cluster",
		Long: `Adopt searches the whole cluster for objects that carry the mark of the app. It records the ones that the inventory of the app
lacks. If the inventory is lost, adopt creates a new one. It does not change the objects.

Afterwards sluice apply --prune deletes the objects that the source no longer has, and sluice delete deletes all of them. Adopt
leaves out objects that an annotation keeps, because the app gave them up. It records namespaces as older than the app, so no command
deletes them by default.

Exit codes: 0 all objects are recorded, 1 some kinds could not be listed and objects may be missing, 2 error.`,
		Example: `  sluice adopt shop -n default --dry-run
  sluice adopt shop -n default`,
		Args:        oneApp,
		Annotations: map[string]string{command.ResultKind: "AdoptResult"},
		RunE:        func(cmd *cobra.Command, args []string) error { return runAdopt(cmd.Context(), e, f, args[0]) },
	}
	f.addTo(cmd, "print the objects to record, and record nothing")
	return cmd
}

// AdoptResult is the outcome for programs. Outcome is "adopted", "tried" for a dry run, or "failed"; Error is set
// only then.
type AdoptResult struct {
	command.Document `json:",inline"`
	App              string `json:"app"`
	Namespace        string `json:"namespace"`
	DryRun           bool   `json:"dryRun,omitempty"`
	Outcome          string `json:"outcome"`
	Error            string `json:"error,omitempty"`
	// Objects are those that the inventory gets.
	Objects []apply.Orphan `json:"objects"`
	// Left are those that an annotation keeps.
	Left []apply.Orphan `json:"left,omitempty"`
	// Unlisted says what could not be listed.
	Unlisted []string `json:"unlisted,omitempty"`
}

// runAdopt plans an adoption, and records it unless it is a dry run. Only the recording takes the lock of the app:
// a plan changes nothing, and must not fail because another run holds the lock. It returns [command.ErrFindings]
// after the result if some kinds could not be listed, because objects of the app may be missing then.
func runAdopt(ctx context.Context, e *command.Env, f *changeFlags, app string) error {
	applier, err := connectApplier(&f.ClusterFlags, apply.Options{Now: e.Now, LockTimeout: f.lockTimeout})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("the time of --timeout %s is over", f.timeout))
	defer cancel()
	var plan *apply.Adoption
	if f.dryRun {
		plan, err = applier.PlanAdoption(ctx, applier.namespace, app)
	} else {
		// The plan is made again under the lock: another run may have changed the inventory since.
		err = underLock(ctx, e, applier, app, func(applier *connection) (err error) {
			if plan, err = applier.PlanAdoption(ctx, applier.namespace, app); err != nil {
				return err
			}
			return applier.Adopt(ctx, plan)
		})
	}
	if err != nil {
		return err
	}
	result := AdoptResult{
		Document: command.DocumentOf("AdoptResult"), App: app, Namespace: applier.namespace, DryRun: f.dryRun, Outcome: "adopted",
		Objects: append([]apply.Orphan{}, plan.Objects...), Left: plan.Left, Unlisted: plan.Unlisted,
	}
	did, done := "adopted", "adopted"
	if f.dryRun {
		result.Outcome, did, done = outcomeTried, "would adopt", "to be adopted"
	}
	if len(plan.Unlisted) > 0 {
		err = command.ErrFindings
	}
	if f.output == "json" {
		return errors.Join(err, command.Encode(e.Out, result))
	}
	for _, o := range plan.Objects {
		fmt.Fprintf(e.Out, "%s %s\n", did, o.ID)
	}
	for _, o := range plan.Left {
		fmt.Fprintf(e.Out, "left alone: %s: %s\n", o.ID, o.Kept)
	}
	tellUnlisted(e, plan.Unlisted)
	fmt.Fprintf(e.Out, "app %s: %s %s\n", app, brief.Count(len(plan.Objects), "object"), done)
	return err
}

// tellUnlisted tells what could not be listed. A line that is broken continues with an indentation, so that it is
// not taken for a second note.
func tellUnlisted(e *command.Env, unlisted []string) {
	for _, u := range unlisted {
		for i, line := range wrapWords("note: "+brief.OneLine(u)+"; there may be more objects", unlistedWidth) {
			if i > 0 {
				line = "  " + line
			}
			fmt.Fprintln(e.Err, line)
		}
	}
}

// unlistedWidth is the width of the lines that name kinds: a user with few rights may list few of them.
const unlistedWidth = 120

// wrapWords breaks a text between words into lines of at most width bytes. A longer word has a line of its own. An
// empty text is one empty line.
func wrapWords(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// OrphanList is the orphans for programs. Objects is empty and not null if there is none. Unlisted says what could
// not be listed.
type OrphanList struct {
	command.Document `json:",inline"`
	Objects          []apply.Orphan `json:"objects"`
	Unlisted         []string       `json:"unlisted,omitempty"`
}

// listOrphans prints the orphans of one app, if args name it, or those of all apps of the namespace, or of the
// cluster with -A. The last column says why each is an orphan: its app has no inventory, the inventory lacks it,
// or an annotation keeps it although the app gave it up. Kinds that could not be listed are notes, and no error.
//
//	APP   NAMESPACE  KIND             NAME      WHY
//	shop  default    Deployment.apps  frontend  the inventory does not have it
//	shop  default    ConfigMap        prices    the app has no inventory
func listOrphans(ctx context.Context, e *command.Env, f *lsFlags, a *connection, args []string) error {
	app, namespace := "", a.namespace
	if len(args) == 1 {
		if app = args[0]; f.all {
			return errors.New("-A is for all apps: leave it out where you name one")
		}
		if err := apply.CheckApp(app); err != nil {
			return err
		}
	}
	if f.all {
		namespace = ""
	}
	found, err := a.Orphans(ctx, namespace, app)
	if err != nil {
		return err
	}
	if f.output == "json" {
		return command.Encode(e.Out, OrphanList{command.DocumentOf("OrphanList"), append([]apply.Orphan{}, found.Objects...), found.Unlisted})
	}
	tellUnlisted(e, found.Unlisted)
	if len(found.Objects) == 0 {
		fmt.Fprintln(e.Err, "no orphan")
		return nil
	}
	w := command.Columns(e.Out)
	fmt.Fprintln(w, "APP\tNAMESPACE\tKIND\tNAME\tWHY")
	for _, o := range found.Objects {
		why := "the inventory does not have it"
		switch {
		case o.Kept != "":
			why = o.Kept
		case o.Lost:
			why = "the app has no inventory"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", o.App, command.Dash(o.Namespace), o.GroupKind(), o.Name, why)
	}
	w.Flush()
	return nil
}
