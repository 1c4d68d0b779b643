package cli

// How is the admission webhook of CRDs served? The role crd-guard asks the API server to send each change of a CRD
// to it. Before it is ready, it has its configuration, and a certificate that the API server knows; otherwise it
// would judge by defaults, or block all changes. The judgement itself is that of package controller/guard.

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"sluice.dev/internal/admission"
	"sluice.dev/internal/controller/guard"
	"sluice.dev/internal/preflight"
	"sluice.dev/internal/process"
	"sluice.dev/internal/servingcert"
)

// guardFlags are those of the role crd-guard.
type guardFlags struct {
	listen  string
	configs []string
	certDir string
	hosts   []string
}

// addTo adds the flags of the role, all with the prefix guard-.
func (f *guardFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "guard-listen", ":9443", "address of the admission webhook, in the role crd-guard")
	flags.StringArrayVar(&f.configs, "guard-config", nil, "configuration file of the guard, in the format of check -c (may be repeated); default: the ConfigMap "+guard.ConfigMap)
	flags.StringVar(&f.certDir, "guard-cert-dir", "", "folder with tls.crt and tls.key from another program, such as cert-manager; default: the guard creates and renews its own certificate")
	flags.StringSliceVar(&f.hosts, "guard-host", nil, "additional DNS name or IP address in the guard's own certificate, if the API server does not call a Service")
}

const (
	// certificateLook is how often the guard looks whether the API server still knows its certificate: others write the
	// configuration as well, and until the bundle is back changes are refused.
	certificateLook = 10 * time.Second
	versionLook     = 10 * time.Minute
	// guardRequests is how many requests of up to 8 MB are judged at once, and have room in memory.
	guardRequests = 16
)

// serveGuard serves the admission webhook of the role crd-guard. It returns when ctx is done, after running
// requests have ended. ready is called once, when it can judge.
func (s *server) serveGuard(ctx context.Context, ready func()) error {
	f := s.flags.guard
	objects, err := metadata.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	g := &guard.Guard{
		Settings: &guard.Settings{Rules: preflight.Rules()}, Objects: guard.Objects{Client: objects, Namespace: s.Namespace, Discovery: discovery.ToServerResourcesInterfaceWithContext(s.Kube.Discovery())}, Kube: s.Kube,
		Metrics: guard.NewMetrics(s.Registry), Recorder: s.Recorder, Clock: s.Clock, Log: s.Log,
		Requests: admission.NewIntake(guardRequests), Slots: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if len(f.configs) > 0 {
		if err := g.Settings.Load(f.configs); err != nil {
			return err
		}
	} else {
		// Until it is read nothing is judged by it.
		process.AwaitSignal(ctx, s.WatchConfig(ctx, wg.Go, guard.ConfigMap, g.Settings.Configure))
	}
	wg.Go(func() { s.followServerVersion(ctx, g.Settings) })

	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	// certain is closed when there is a certificate and the API server knows it.
	certain := make(chan struct{})
	if f.certDir != "" {
		// Another program renews the certificate and tells the API server; here it is only read.
		files := &servingcert.Files{Dir: f.certDir, Log: s.Log}
		if _, err := files.Get(nil); err != nil {
			return fmt.Errorf("--guard-cert-dir: %w", err)
		}
		secure.GetCertificate = s.WatchCertificate(guard.Role, files.Get)
		close(certain)
	} else {
		cert := &servingcert.Certificate{
			Kube: s.Kube, Namespace: s.Namespace, Secret: guard.TLSSecret,
			Hosts: append([]string{fmt.Sprintf("%s.%s.svc", guard.Service, s.Namespace)}, f.hosts...),
			Every: certificateLook, Clock: s.Clock, Log: s.Log,
			Tell: func(ctx context.Context, bundle []byte) error { return guard.TellConfiguration(ctx, s.Kube, bundle) },
		}
		secure.GetCertificate = s.WatchCertificate(guard.Role, cert.Get)
		wg.Go(func() { cert.Run(ctx, sync.OnceFunc(func() { close(certain) })) })
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+guard.Path, g)
	return process.ListenUntilDone(ctx, f.listen, mux, secure, s.ClientErrors(), func() {
		wg.Go(func() {
			process.AwaitSignal(ctx, certain)
			ready()
		})
	})
}

// followServerVersion keeps the version whose rules hold. It asks every ten minutes, since a cluster is upgraded
// while the guard runs, and sooner after an error.
func (s *server) followServerVersion(ctx context.Context, settings *guard.Settings) {
	for {
		wait := versionLook
		info, err := s.Kube.Discovery().ServerVersion()
		if err == nil {
			var v *version.Version
			if v, err = version.ParseGeneric(info.Major + "." + strings.TrimRight(info.Minor, "+")); err == nil {
				settings.UseServerVersion(v)
			}
		}
		if err != nil {
			wait = certificateLook
			s.Log.Warn("the version of the API server is not known; that of the linked libraries holds", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.Clock.After(wait):
		}
	}
}
