package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"sluice.dev/internal/cluster"
)

// clusterFlags say which cluster and namespace.
type clusterFlags struct{ kubeconfig, context, namespace string }

func (f *clusterFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.addCluster(fs)
	fs.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the app, and of objects without a namespace (default: the context's)")
}

// addCluster adds the flags that say which cluster, for commands with a flag of their own for the namespace.
func (f *clusterFlags) addCluster(fs *pflag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: KUBECONFIG, or ~/.kube/config)")
	fs.StringVar(&f.context, "context", "", "context in the kubeconfig")
}

// connect reads the configuration; it does not contact the cluster. The namespace is never empty.
func (f *clusterFlags) connect() (*rest.Config, string, error) {
	return cluster.Config(cluster.Options{Kubeconfig: f.kubeconfig, Context: f.context, Namespace: f.namespace})
}
