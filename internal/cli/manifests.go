package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sluice.dev/config"
	"sluice.dev/requester/contentstore"
)

func newManifests(e *env) *cobra.Command {
	var o config.Options
	own := false
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
					_, err = e.out.Write(data)
				}
				return err
			}
			if o.Store != "" {
				if _, err := contentstore.New(o.Store, contentstore.Options{}); err != nil {
					return fmt.Errorf("--store: %w", err)
				}
			}
			data, err := config.Manifests(o)
			if errors.Is(err, config.ErrNoImage) {
				return fmt.Errorf("%w with --image, as in --image=registry.example.com/sluice:v1", err)
			}
			if err != nil {
				return err
			}
			_, err = e.out.Write(data)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Image, "image", "", "container image; a release has a default, a development build needs it")
	flags.StringSliceVar(&o.Roles, "roles", nil, "only these roles of sluice serve; default: all but crd-guard, delivery, features and feature-webhook")
	flags.BoolVar(&o.GuardCertManager, "guard-cert-manager", false, "leave the certificate of the role crd-guard to cert-manager")
	flags.StringSliceVar(&o.GuardReads, "guard-reads", nil, "API groups whose objects the guard may list, to see whether a CRD that is deleted has any")
	flags.StringSliceVar(&o.FeatureUsage, "feature-usage", nil, "resource, as PLURAL.GROUP, whose objects the role features may list, to count those that use features")
	complete(cmd, "roles", config.RoleNames()...)
	flags.StringSliceVar(&o.FeatureSettings, "feature-settings", nil, "ConfigMap of a component, NAMESPACE/NAME, that the roles features and feature-webhook may watch, and make again when it is gone")
	flags.BoolVar(&own, "own-features", false, "print the Component sluice and its Features instead: what of Sluice's own API is not settled yet; for where the role features runs")
	flags.StringSliceVar(&o.Writers, "writer", nil, "one more user who may write the status of requests: system:serviceaccount:NAMESPACE:NAME=RESOLVER, once for each resolver; without =RESOLVER those of all resolvers but Sluice's own, with =* all")
	flags.BoolVar(&o.Compress, "compress", false, "resolvers compress content that is too large for a request, for clients that know of it")
	flags.StringVar(&o.Store, "store", "", "repository in an OCI registry, REGISTRY/PATH, where resolvers put content that is too large for a request, for clients that know of it")
	flags.StringVar(&o.StoreCredentials, "store-credentials", "", "Secret of the type kubernetes.io/dockerconfigjson in Sluice's namespace with credentials for --store")
	flags.BoolVar(&o.StorePlainHTTP, "store-plain-http", false, "the registry of --store may have no TLS")
	flags.BoolVar(&o.BesideTekton, "beside-tekton", false, "beside Tekton Pipelines: its CRD and lifecycle controller stay, its ConfigMaps are read")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace for Sluice; default: sluice-system")
	flags.StringVar(&o.TektonNamespace, "tekton-namespace", "", "with --beside-tekton, namespace of Tekton's controller; default: tekton-pipelines")
	flags.StringVar(&o.TektonResolversNamespace, "tekton-resolvers-namespace", "", "with --beside-tekton, namespace of the ConfigMaps of Tekton's resolvers; default: tekton-pipelines-resolvers")
	flags.BoolVar(&o.WideCredentials, "wide-credentials", false, "let resolvers read the Secrets of all namespaces, as Tekton's do")
	flags.BoolVar(&o.WideAddresses, "wide-addresses", false, "open private addresses and plain http to requesters, as Tekton's resolvers have them open, where their ConfigMaps do not say otherwise")
	return cmd
}
