//go:build !assets

package component

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version"
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllermanagerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// Has reports whether there is the named component: all are part of this program.
func Has(string) bool { return true }

// Version is that of Kubernetes.
func Version() (string, error) { return version.Get().GitVersion, nil }

// Run runs the named component with the given command-line flags until ctx is done or the component fails. After ctx is done, the
// controller manager may still work when Run returns: like upstream's binary it has no orderly end without leader election. The
// caller must then end the process.
func Run(ctx context.Context, name string, args []string) error {
	defer logs.FlushLogs()
	switch name {
	case APIServer:
		return runAPIServer(ctx, args)
	case ControllerManager:
		cmd := controllermanagerapp.NewControllerManagerCommand()
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		ended := make(chan error, 1)
		go func() { ended <- cmd.ExecuteContext(ctx) }()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
	default:
		return Known(name)
	}
}

// runAPIServer does the same as upstream's command (cmd/kube-apiserver/app/server.go), but serves on an inherited socket. The
// parent binds the port, so no other process can take it between choosing and listening.
func runAPIServer(ctx context.Context, args []string) error {
	listener, err := inheritedListener()
	if err != nil {
		return err
	}
	s := options.NewServerRunOptions()
	flags := pflag.NewFlagSet(APIServer, pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, set := range s.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if extra := flags.Args(); len(extra) > 0 {
		return fmt.Errorf("unexpected arguments %q", extra)
	}
	s.SecureServing.Listener = listener

	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	gates := s.GenericServerRunOptions.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := logsapi.ValidateAndApply(s.Logs, gates); err != nil {
		return err
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	s.GenericServerRunOptions.ComponentGlobalsRegistry.AddMetrics()
	return apiserverapp.Run(ctx, completed)
}

// inheritedListener is the socket that the parent has bound, at the descriptor [ListenerFD].
func inheritedListener() (net.Listener, error) {
	file := os.NewFile(ListenerFD, "listener")
	if file == nil {
		return nil, errors.New("no listening socket was inherited")
	}
	defer file.Close() //nolint:errcheck // the listener has its own
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("the inherited listening socket: %w", err)
	}
	return listener, nil
}
