package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/internal/cluster"
)

// clusterFlags say which cluster and namespace.
type clusterFlags struct{ kubeconfig, context, namespace string }

func (f *clusterFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.addCluster(fs)
	fs.StringVarP(&f.namespace, "namespace", "n", "", "namespace of objects that name none, and of the app (default: the context's)")
}

// addCluster adds the flags that say which cluster, for commands with a flag of their own for the namespace.
func (f *clusterFlags) addCluster(fs *pflag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: KUBECONFIG, or ~/.kube/config)")
	fs.StringVar(&f.context, "context", "", "context of the kubeconfig")
}

// connect reads the configuration; it does not contact the cluster. The namespace is never empty.
func (f *clusterFlags) connect() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	rules.WarnIfAllMissing = false
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	overrides.Context.Namespace = f.namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			return nil, "", fmt.Errorf("%w: no kubeconfig found (give --kubeconfig FILE or set KUBECONFIG)", cluster.ErrNoAccess)
		}
		return nil, "", fmt.Errorf("%w: %w", cluster.ErrNoAccess, err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", cluster.ErrNoAccess, err)
	}
	return config, namespace, nil
}
