package command

// Which flags do several commands have? Those that choose a cluster, and -o with its formats. Their names, help
// texts and completions are the same everywhere because they are added here. Arguments are counted here too, so
// that the error of a wrong number says what to name.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cluster"
	"sluice.dev/report"
)

// Complete completes the values of a flag.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	CompleteWith(cmd, flag, func(string) ([]string, cobra.ShellCompDirective) { return values, cobra.ShellCompDirectiveNoFileComp })
}

// CompleteWith registers a function that returns the completions of a flag's value. It gets the text typed so far.
func CompleteWith(cmd *cobra.Command, flag string, values func(typed string) ([]string, cobra.ShellCompDirective)) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return values(typed)
	})
	if err != nil { // the flag does not exist: a mistake in the command
		cmd.PrintErrln(err)
	}
}

// NoArgs is [cobra.NoArgs] for a command that has others below it: what follows it is taken for one of them, and
// the error names the one that is meant. For example, sluice features enabel says that enable may be meant.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return fmt.Errorf("unknown command %q for %q%s; %[2]s --help lists the commands", args[0], cmd.CommandPath(), brief.Hint(args[0], names))
}

// OneArg accepts exactly one argument. For any other number, missing is the error: it says what to name.
func OneArg(missing string) cobra.PositionalArgs { return countArgs(1, 1, missing) }

// OneArgOrMore accepts at least one argument. For none, missing is the error: it says what to name.
func OneArgOrMore(missing string) cobra.PositionalArgs { return countArgs(1, math.MaxInt, missing) }

// countArgs accepts from least to most arguments, and returns the text otherwise as the error for any other
// number.
func countArgs(least, most int, otherwise string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return errors.New(otherwise)
		}
		return nil
	}
}

// AddOutput adds the flag -o, which takes one of the formats. The first one is the default. An empty value is the
// default as well. An unknown one is an error when flags are parsed, before the command does anything.
func AddOutput(cmd *cobra.Command, o *string, formats ...string) {
	*o = formats[0]
	// A value of its own type refuses an unknown format when flags are parsed, before any work.
	cmd.Flags().VarP(&formatName{o, formats}, "output", "o", "format: "+strings.Join(formats, ", "))
	Complete(cmd, "output", formats...)
}

// formatName is the value of a flag that takes the name of a format.
type formatName struct {
	value   *string
	formats []string
}

// String is the chosen format.
func (f *formatName) String() string { return *f.value }

// Type is the word for the value in help texts.
func (f *formatName) Type() string { return "string" }

// Set takes the name of a format. The error for an unknown one lists the formats, and says which may be meant.
func (f *formatName) Set(name string) error {
	if name == "" { // as a variable of a script that is not set
		name = f.formats[0]
	}
	if !slices.Contains(f.formats, name) {
		return fmt.Errorf("the formats are %s%s", strings.Join(f.formats, ", "), brief.Hint(name, f.formats))
	}
	*f.value = name
	return nil
}

// FormatNames are the names of the formats of a report. The first one is for people.
func FormatNames() []string {
	var out []string
	for _, p := range report.Printers() {
		out = append(out, p.Name)
	}
	return out
}

// WantsColor reads --color. auto means a terminal that is not dumb, and no variable NO_COLOR
// (https://no-color.org). Another value is an error.
func (e *Env) WantsColor(flag string) (bool, error) {
	switch flag {
	case "auto":
		return e.OutTTY && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb", nil
	case "always":
		return true, nil
	case "never":
		return false, nil
	}
	return false, fmt.Errorf("--color %q: it is auto, always or never", flag)
}

// ClusterFlags say which cluster and namespace. Empty values leave the choice to the kubeconfig, as for kubectl.
type ClusterFlags struct{ kubeconfig, context, Namespace string }

// AddClusterNamespace adds the flags that say which cluster and namespace.
func (f *ClusterFlags) AddClusterNamespace(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.AddCluster(fs)
	fs.StringVarP(&f.Namespace, "namespace", "n", "", "namespace of the app, and of objects without a namespace (default: the context's)")
}

// AddCluster adds the flags that say which cluster, for commands with a flag of their own for the namespace.
func (f *ClusterFlags) AddCluster(fs *pflag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: KUBECONFIG, or ~/.kube/config)")
	fs.StringVar(&f.context, "context", "", "context in the kubeconfig")
}

// RefuseUnused refuses flags that would have no effect, because of a reason. A flag that a user gives and that
// changes nothing hides a mistake: she believes that another cluster was looked at.
func (f *ClusterFlags) RefuseUnused(because string) error {
	for name, value := range map[string]string{"kubeconfig": f.kubeconfig, "context": f.context} {
		if value != "" {
			return fmt.Errorf("--%s has no effect: %s", name, because)
		}
	}
	return nil
}

// Connect reads the configuration; it does not contact the cluster. The namespace is never empty.
func (f *ClusterFlags) Connect() (*rest.Config, string, error) {
	return cluster.Config(f.clusterOptions())
}

// Cluster connects to the cluster, for commands that only read it.
func (f *ClusterFlags) Cluster() (*cluster.Cluster, error) {
	return cluster.Connect(f.clusterOptions())
}

func (f *ClusterFlags) clusterOptions() cluster.Options {
	return cluster.Options{Kubeconfig: f.kubeconfig, Context: f.context, Namespace: f.Namespace}
}
