// Package component runs one Kubernetes component, as its own binary would.
//
// Each component sets up state for the whole process (logging, feature gates, metrics) that cannot be set up twice. So a process
// runs one component, once. The package does not decide which flags a component gets. With the build tag assets it has no component
// in it, and runs the programs in the folder that KUBEBUILDER_ASSETS names, as setup-envtest downloads them.
package component

import "fmt"

// The names that Run knows.
const (
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
)

// ListenerFD is the file descriptor on which a child process inherits the API server's listening socket.
const ListenerFD = 3

// Known reports whether Run knows a component of that name. The error lists the names.
func Known(name string) error {
	if name == APIServer || name == ControllerManager {
		return nil
	}
	return fmt.Errorf("unknown component %q: allowed are %q and %q", name, APIServer, ControllerManager)
}
