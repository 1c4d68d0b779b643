package apply

// Which cluster and namespace does a command about apps work in? Those of its flags, or else of the kubeconfig: sluice ls -n shop connects
// an applier for the namespace shop.

import (
	"k8s.io/client-go/rest"

	"sluice.dev/apply"
	"sluice.dev/internal/cli/command"
)

// connection is an applier, with the configuration that it was made from and its namespace.
type connection struct {
	*apply.Applier

	config    *rest.Config
	namespace string
}

// oneApp is for commands about one app.
var oneApp = command.OneArg("name one app; sluice ls lists the apps")

// connectApplier makes an applier for the cluster and the namespace of the flags. It does not contact the cluster.
func connectApplier(f *command.ClusterFlags, o apply.Options) (*connection, error) {
	config, namespace, err := f.Connect()
	if err != nil {
		return nil, err
	}
	o.Namespace = namespace
	applier, err := apply.New(config, o)
	return &connection{applier, config, namespace}, err
}
