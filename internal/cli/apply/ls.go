package apply

// Which apps does a cluster have, and in which state are they? sluice ls reads the inventories, which are
// ConfigMaps in the namespaces of the apps. With the name of an app it reads the live objects as well, and says of
// each whether it is ready. It never writes.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/apply"
	"sluice.dev/internal/cli/command"
)

// lsFlags are those of ls. all lists the apps of all namespaces; orphans lists objects instead of apps.
type lsFlags struct {
	command.ClusterFlags

	all     bool
	orphans bool
	output  string
}

// NewLs returns the command ls.
func NewLs(e *command.Env) *cobra.Command {
	f := &lsFlags{}
	cmd := &cobra.Command{
		Use:   "ls [APP]",
		Short: "List the apps in a cluster, or the objects of one",
		Long: `Ls lists the apps that sluice apply --app has recorded: the state, the number of objects and the source of each. With the name of an
app it lists the app's objects, each with its state.

With --orphans it lists objects in the whole cluster that carry the mark of an app but are missing from its inventory. It lists those of
the named app, of all apps of the namespace, or with -A of all apps. sluice adopt records them again.`,
		Example: `  sluice ls -A
  sluice ls shop -n default
  sluice ls --orphans -A`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			applier, err := connectApplier(&f.ClusterFlags, apply.Options{Now: e.Now})
			if err != nil {
				return err
			}
			if f.orphans {
				return listOrphans(cmd.Context(), e, f, applier, args)
			}
			if len(args) == 1 {
				return listObjects(cmd.Context(), e, f, applier, args[0])
			}
			return listApps(cmd.Context(), e, f, applier)
		},
	}
	f.AddClusterNamespace(cmd)
	fs := cmd.Flags()
	fs.BoolVarP(&f.all, "all-namespaces", "A", false, "list apps of all namespaces")
	fs.BoolVar(&f.orphans, "orphans", false, "list objects that carry the mark of an app but are missing from its inventory")
	command.AddOutput(cmd, &f.output, "text", "json")
	return cmd
}

// AppList is the apps for programs. Apps is empty and not null if there is none.
type AppList struct {
	command.Document `json:",inline"`
	Apps             []*apply.Inventory `json:"apps"`
}

// listApps prints the apps of a namespace, or of all. An inventory that cannot be read is an error, but the others
// are printed before it. The source is the one that is applied, or for an app whose first apply has not ended, the
// one that is on its way.
//
//	NAMESPACE  APP   STATE    OBJECTS  SINCE                 SOURCE
//	default    shop  applied  12       2026-11-02T08:30:00Z  config/
func listApps(ctx context.Context, e *command.Env, f *lsFlags, a *connection) error {
	namespace := a.namespace
	if f.all {
		namespace = ""
	}
	apps, err := a.Apps(ctx, namespace)
	if err != nil && apps == nil {
		return err
	}
	if f.output == "json" {
		return errors.Join(err, command.Encode(e.Out, AppList{command.DocumentOf("AppList"), append([]*apply.Inventory{}, apps...)}))
	}
	if len(apps) == 0 && err == nil {
		if namespace == "" {
			fmt.Fprintln(e.Err, "no app in any namespace")
		} else {
			fmt.Fprintf(e.Err, "no app in the namespace %s; -A lists those of all namespaces\n", namespace)
		}
		return nil
	}
	w := command.Columns(e.Out)
	fmt.Fprintln(w, "NAMESPACE\tAPP\tSTATE\tOBJECTS\tSINCE\tSOURCE")
	for _, v := range apps {
		source := "-"
		list := v.Sources
		if len(list) == 0 {
			list = v.Next
		}
		if len(list) > 0 {
			source = sourceLine(list[0])
		}
		if len(list) > 1 {
			source += fmt.Sprintf(" and %d more", len(list)-1)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", v.Namespace, v.App, v.State, len(v.Objects), timeText(cmp.Or(v.Finished, v.Started)), source)
	}
	w.Flush()
	return err
}

// timeText is a time in a table. It is in UTC, to the second; a dash stands for none.
func timeText(t *metav1.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// ObjectList is the objects of an app for programs, each with its state.
type ObjectList struct {
	command.Document `json:",inline"`
	App              *apply.Inventory `json:"app"`
	Objects          []apply.NotReady `json:"objects"`
}

// listObjects prints the objects of an app with their states, the sources, and what is unusual about the app: an
// inventory that was created again, or a run that has not ended in order.
//
//	source config/
//	NAMESPACE  KIND             NAME      STATE    MESSAGE
//	default    Deployment.apps  frontend  Current
func listObjects(ctx context.Context, e *command.Env, f *lsFlags, a *connection, app string) error {
	v, err := a.App(ctx, a.namespace, app)
	if err != nil {
		return err
	}
	states, err := a.Status(ctx, v)
	if err != nil {
		return err
	}
	if f.output == "json" {
		return command.Encode(e.Out, ObjectList{command.DocumentOf("App"), v, states})
	}
	for _, s := range v.Sources {
		fmt.Fprintf(e.Out, "source %s\n", sourceLine(s))
	}
	if v.Incomplete {
		fmt.Fprintf(e.Out, "incomplete: the inventory was lost and created again; sluice adopt %s -n %s finds the missing objects\n", v.App, v.Namespace)
	}
	if v.State != apply.Applied {
		fmt.Fprintf(e.Out, "%s: the last run has not ended in order; some of these may not exist\n", v.State)
	}
	w := command.Columns(e.Out)
	fmt.Fprintln(w, "NAMESPACE\tKIND\tNAME\tSTATE\tMESSAGE")
	for _, s := range states {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", command.Dash(s.ID.Namespace), s.ID.GroupKind(), s.ID.Name, s.Status, s.Message)
	}
	w.Flush()
	return nil
}
