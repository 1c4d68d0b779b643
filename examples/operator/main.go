// Command operator is a complete operator with features, to copy from: one kind (api/v1), three features declared once
// (features), a controller that asks for them (controller), and the manifests that install it (config).
// docs/features-for-operators.md explains it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	pagesv1 "sluice.dev/examples/operator/api/v1"
	"sluice.dev/examples/operator/controller"
	"sluice.dev/examples/operator/features"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/process"
)

func main() {
	log := textlogger.NewLogger(textlogger.NewConfig())
	ctx := ctrl.SetupSignalHandler()
	if err := runOperator(ctx, log, os.Args[1:], os.Environ(), ctrl.GetConfig); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(2) //nolint:forbidigo // a program that ends with a code
	}
}

// options are the flags of the operator.
type options struct {
	settings, metrics string
	gates             *gate.Gates
}

func parseOptions(log logr.Logger, args, environ []string) (*options, error) {
	gates, err := gate.New(features.Declaration(), gate.Options{Environ: environ, Logger: log.WithName("features")})
	if err != nil {
		return nil, err
	}
	o := &options{gates: gates}
	fs := pflag.NewFlagSet("operator", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	gates.AddFlags(fs)
	fs.StringVar(&o.settings, "settings", "", "a file with settings of features")
	fs.StringVar(&o.metrics, "metrics-bind-address", "0", "where metrics are served; 0 for nowhere")
	return o, fs.Parse(args)
}

// runOperator runs the operator until ctx ends.
func runOperator(ctx context.Context, log logr.Logger, args, environ []string, connect func() (*rest.Config, error)) error {
	o, err := parseOptions(log, args, environ)
	if err != nil {
		return err
	}
	config, err := connect()
	if err != nil {
		return err
	}
	env := map[string]string{}
	for _, name := range []string{"POD_NAME", "POD_UID", "POD_NAMESPACE", "POD_TEMPLATE_HASH"} {
		env[name] = lookupEnv(environ, name)
	}
	follower, err := process.New(config, o.gates, process.Options{
		Process: "controller", Instance: env["POD_NAME"], Namespace: env["POD_NAMESPACE"], Revision: env["POD_TEMPLATE_HASH"],
		Release: features.Release, Owner: process.PodOwner(env["POD_NAME"], env["POD_UID"]), File: o.settings, Logger: log.WithName("features"),
	})
	if err != nil {
		return err
	}
	// Settings are read before anything depends on them; wrong flags end the program here, with all that is wrong.
	if err := follower.Begin(ctx); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, pagesv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Logger: log, Metrics: metricsserver.Options{BindAddress: o.metrics}})
	if err != nil {
		return err
	}
	if err := metrics.Registry.Register(o.gates.Collector()); err != nil {
		return err
	}
	defer metrics.Registry.Unregister(o.gates.Collector())
	if err := (&controller.Pages{Client: manager.GetClient(), Gates: o.gates}).SetupWithManager(ctx, manager); err != nil {
		return err
	}
	if err := manager.Add(follower); err != nil {
		return err
	}
	return manager.Start(ctx)
}

// lookupEnv returns a variable of the environment.
func lookupEnv(environ []string, name string) string {
	for _, e := range environ {
		if len(e) > len(name) && e[:len(name)] == name && e[len(name)] == '=' {
			return e[len(name)+1:]
		}
	}
	return ""
}
