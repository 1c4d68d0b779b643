// Package install has the commands about the installation of Sluice in a cluster: manifests, doctor and uninstall.
package install

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"sluice.dev/config"
	"sluice.dev/internal/cli/command"
	"sluice.dev/requester/contentstore"
)

// NewManifests returns the command manifests.
func NewManifests(e *command.Env) *cobra.Command {
	var o config.Options
	own, values := false, ""
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print the manifests that install Sluice in a cluster",
		Long: `Print the manifests that install Sluice in a cluster, in the order in which they can be applied:

  sluice manifests --image registry.example.com/sluice:v1 | kubectl apply --server-side -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if own {
				if n := cmd.Flags().NFlag(); n > 1 {
					return errors.New("--own-features prints the features of Sluice only: it takes no other flag")
				}
				data, err := config.OwnFeatures()
				if err == nil {
					_, err = e.Out.Write(data)
				}
				return err
			}
			if o.Store != "" {
				if _, err := contentstore.New(o.Store, contentstore.Options{}); err != nil {
					return fmt.Errorf("--store: %w", err)
				}
			}
			if values != "" {
				text, err := e.ReadInput(values)
				if err != nil {
					return err
				}
				o.Values = text
			}
			data, err := config.Manifests(o)
			if errors.Is(err, config.ErrNoImage) {
				return fmt.Errorf("%w with --image, as in --image=registry.example.com/sluice:v1", err)
			}
			if err != nil {
				return err
			}
			if has := func(role string) bool { return slices.Contains(o.Roles, role) }; has(config.DeliveryRole) && !has(config.ResolutionRole) && !has(config.AllRoles) && !o.BesideTekton {
				fmt.Fprintln(e.Err, "note: the role delivery fetches sources by ResolutionRequests: the roles resolution and resolver-* have to be in the cluster too, or Tekton (--beside-tekton)")
			}
			_, err = e.Out.Write(data)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&values, "values", "f", "", "file with values of the Helm chart, such as replicas, resources and tolerations; - reads standard input. Other flags take precedence over it")
	flags.StringVar(&o.Image, "image", "", "container image; required for a development build, a release has a default")
	flags.StringSliceVar(&o.Roles, "roles", nil, "only these roles of sluice serve; default: all but delivery, features and feature-webhook")
	flags.BoolVar(&o.GuardCertManager, "guard-cert-manager", false, "let cert-manager issue the certificate of the role crd-guard")
	flags.StringSliceVar(&o.GuardReads, "guard-reads", nil, "API groups whose objects the guard has the right to list, to find out if a CRD that is deleted has any")
	flags.StringSliceVar(&o.FeatureUsage, "feature-usage", nil, "resource, as PLURAL.GROUP, whose objects the role features has the right to list, to count those that use features")
	command.Complete(cmd, "roles", config.RoleNames()...)
	flags.StringSliceVar(&o.FeatureSettings, "feature-settings", nil, "ConfigMap of a component, as NAMESPACE/NAME: the roles features and feature-webhook get the right to watch it, and to create it again if it is deleted")
	flags.BoolVar(&own, "own-features", false, "instead print the Component sluice and its Features, for the parts of Sluice's own API that may still change; needs the role features")
	flags.StringSliceVar(&o.Writers, "writer", nil, "additional user with the right to write the status of requests: system:serviceaccount:NAMESPACE:NAME=RESOLVER, once for each resolver; without =RESOLVER for all resolvers except Sluice's own, with =* for all")
	flags.BoolVar(&o.Compress, "compress", false, "let resolvers compress content that is too large for a request; clients have to support it")
	flags.StringVar(&o.Store, "store", "", "repository in an OCI registry, as REGISTRY/PATH, where resolvers store content that is too large for a request; clients have to support it")
	flags.StringVar(&o.StoreCredentials, "store-credentials", "", "Secret of type kubernetes.io/dockerconfigjson in Sluice's namespace with credentials for --store")
	flags.BoolVar(&o.StorePlainHTTP, "store-plain-http", false, "use the registry of --store without TLS if it has none")
	flags.BoolVar(&o.BesideTekton, "beside-tekton", false, "install beside Tekton Pipelines: keep its CRD and lifecycle controller, and read its ConfigMaps")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace for Sluice; default: sluice-system")
	flags.StringVar(&o.TektonNamespace, "tekton-namespace", "", "with --beside-tekton, namespace of Tekton's controller; default: tekton-pipelines")
	flags.StringVar(&o.TektonResolversNamespace, "tekton-resolvers-namespace", "", "with --beside-tekton, namespace of the ConfigMaps of Tekton's resolvers; default: tekton-pipelines-resolvers")
	flags.BoolVar(&o.WideCredentials, "wide-credentials", false, "let resolvers read the Secrets of all namespaces, as Tekton's do")
	flags.BoolVar(&o.WideAddresses, "wide-addresses", false, "allow private addresses and plain http in requests, as Tekton's resolvers do, unless their ConfigMaps forbid it")
	return cmd
}
