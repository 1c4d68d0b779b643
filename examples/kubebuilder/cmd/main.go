// Command main runs the manager of the guestbook project.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"

	bookv1 "sluice.dev/examples/kubebuilder/api/v1"
	"sluice.dev/examples/kubebuilder/internal/controller"
	"sluice.dev/examples/kubebuilder/internal/features"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/process"
)

func main() {
	if err := runManager(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(2) //nolint:forbidigo // a program that ends with a code
	}
}

func runManager(ctx context.Context, args []string) error {
	ctrl.SetLogger(textlogger.NewLogger(textlogger.NewConfig()))
	gates, err := gate.New(features.Declaration(), gate.Options{Environ: os.Environ(), Logger: ctrl.Log.WithName("features")})
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	gates.AddGoFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	follower, err := process.New(config, gates, process.Options{
		Process: "controller", Instance: os.Getenv("POD_NAME"), Namespace: os.Getenv("POD_NAMESPACE"), Release: features.Release, Logger: ctrl.Log.WithName("features"),
	})
	if err != nil {
		return err
	}
	if err := follower.Begin(ctx); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, bookv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	if err := (&controller.GuestbookReconciler{Client: mgr.GetClient(), Gates: gates}).SetupWithManager(mgr); err != nil {
		return err
	}
	// +kubebuilder:scaffold:builder
	if err := mgr.Add(follower); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
