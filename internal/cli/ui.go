package cli

// How does sluice ui start? It listens on a loopback address, prints the address with its token, and serves until
// it is interrupted. Mistakes that would make every page fail, such as a context that does not exist, are errors
// before it listens.

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/cli/features"
	"sluice.dev/internal/ui"
)

// newUI returns the command ui.
func newUI(e *command.Env) *cobra.Command {
	o := ui.Options{Env: e, Flags: &command.ClusterFlags{}}
	var port uint16
	var open bool
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show checks, features, upgrades and requests in the browser",
		Long: `Ui serves pages on this machine, for the browser of one user, until it is interrupted:

  Check      compares two CRDs: paste or drop them, or load files, git revisions or CRDs of the cluster; edit the new one, and the verdict follows
  Features   lists the features of each component: stage, state and its reason, next legal step, uses, processes that disagree
  Upgrades   lists Deliveries and what the guard has refused: what was stopped, where, since when
  Requests   sums up ResolutionRequests by resolver and namespace, and shows one as a time line

It only reads, with the rights of your kubeconfig, and installs nothing. Without a cluster, Check works whole, and Features with -f. It listens on
127.0.0.1 only. The address that it prints has a token, which no other user of the machine should see.`,
		Example: `  sluice ui
  sluice ui --open --context staging
  sluice ui -f features.yaml -f crds/   # features without a cluster`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Annotations:       map[string]string{command.ResultKind: command.NoDocument},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if fs := cmd.Flags(); fs.Changed("context") || fs.Changed("kubeconfig") { // otherwise there need not be a cluster
				if _, _, err := o.Flags.Connect(); err != nil {
					return err
				}
			}
			if len(o.Features) > 0 {
				if _, err := features.ReadOverview(cmd.Context(), e, o.Flags, o.Features); err != nil {
					return err
				}
			}
			var config net.ListenConfig
			l, err := config.Listen(cmd.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				return err
			}
			s, err := ui.New(l, o)
			if err != nil {
				return err
			}
			fmt.Fprintln(e.Out, s.URL())
			if open {
				closeIt, err := command.OpenSecretInBrowser(cmd.Context(), s.URL())
				if err != nil {
					fmt.Fprintf(e.Err, "warning: %v; open the address yourself\n", err)
				}
				defer closeIt()
			}
			return s.Serve(cmd.Context(), l)
		},
	}
	fs := cmd.Flags()
	o.Flags.AddCluster(fs)
	fs.StringVarP(&o.Flags.Namespace, "namespace", "n", "", "namespace to show if you may not list all (default: the context's)")
	fs.StringSliceVarP(&o.Features, "filename", "f", nil, "file or directory with Components, Features, CRDs and ConfigMaps, for the features in place of the cluster's")
	fs.StringArrayVarP(&o.Configs, "config", "c", nil, "configuration file of check (may be repeated)")
	fs.Uint16Var(&port, "port", 0, "port to listen on (default: a free one)")
	fs.BoolVar(&open, "open", false, "open the address in the browser")
	return cmd
}
