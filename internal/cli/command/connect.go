package command

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"sluice.dev/internal/cluster"
)

// ClusterFlags say which cluster and namespace.
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

// RefuseUnused refuses flags that would have no effect, because of a reason.
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
