package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"sluice.dev/internal/admission"
	"sluice.dev/internal/controller/features"
	"sluice.dev/internal/process"
	"sluice.dev/internal/servingcert"
)

// featureWebhookFlags are those of the roles features and feature-webhook.
type featureWebhookFlags struct {
	listen string
	url    string
	hosts  []string
	// usage is how often the role features counts; 0: never.
	usage time.Duration
}

func (f *featureWebhookFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "feature-webhook-listen", ":9444", "address of the admission webhook, in the role feature-webhook")
	flags.StringVar(&f.url, "feature-webhook-url", "", "address of the webhook for the API server, as https://HOST:PORT; default: the Service "+features.Service)
	flags.DurationVar(&f.usage, "feature-usage-interval", features.DefaultUsageInterval, "for the role features, how often to count the stored objects that use features; 0: never")
	flags.StringSliceVar(&f.hosts, "feature-webhook-host", nil, "additional DNS name or IP address in the webhook's certificate, if the API server does not call a Service")
}

// featureRequests is how many requests of up to 8 MB are judged at once, and have room in memory.
const featureRequests = 64

func (s *server) featureCluster() features.Cluster {
	return features.Cluster{Config: s.Config, Kube: s.Kube, CRDs: s.crds, Namespace: s.Namespace, Log: s.Log, Clock: s.Clock}
}

// featureMetrics are shared by the two roles.
func (s *server) featureMetrics() *features.Metrics {
	s.featuresOnce.Do(func() { s.featuresMetrics = features.NewMetrics(s.Registry) })
	return s.featuresMetrics
}

// serveFeatures runs the controller of features.
func (s *server) serveFeatures(ctx context.Context, ready func()) error {
	c := &features.Controller{Cluster: s.featureCluster(), Members: s.Members, Metrics: s.featureMetrics(), Recorder: s.Recorder, UsageInterval: s.flags.features.usage}
	c.UsageInterval = cmp.Or(c.UsageInterval, -1) // as the flag has it
	return c.Run(ctx, ready)
}

// serveFeatureWebhook serves the admission webhook for what policies cannot say.
func (s *server) serveFeatureWebhook(ctx context.Context, ready func()) error {
	f := s.flags.features
	h := &features.Webhook{Cluster: s.featureCluster(), Metrics: s.featureMetrics(), Requests: admission.NewIntake(featureRequests)}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	// known is closed when all that is in force is known.
	known := make(chan struct{})
	wg.Go(func() { h.Run(ctx, sync.OnceFunc(func() { close(known) })) })
	cert := &servingcert.Certificate{
		Kube: s.Kube, Namespace: s.Namespace, Secret: features.TLSSecret,
		Hosts: append([]string{fmt.Sprintf("%s.%s.svc", features.Service, s.Namespace)}, f.hosts...),
		Every: certificateLook, Clock: s.Clock, Log: s.Log,
		Tell: func(ctx context.Context, bundle []byte) error {
			process.AwaitSignal(ctx, known) // nobody is to call before there is an answer
			return features.TellAddress(ctx, s.featureCluster(), f.url, bundle)
		},
	}
	certain := make(chan struct{})
	wg.Go(func() { cert.Run(ctx, sync.OnceFunc(func() { close(certain) })) })
	mux := http.NewServeMux()
	mux.Handle(features.HookPattern, h)
	return process.ListenUntilDone(ctx, f.listen, mux, &tls.Config{GetCertificate: s.WatchCertificate(features.WebhookRole, cert.Get), MinVersion: tls.VersionTLS12}, s.ClientErrors(), func() {
		wg.Go(func() {
			process.AwaitSignal(ctx, known)
			process.AwaitSignal(ctx, certain)
			if ctx.Err() == nil {
				ready()
			}
		})
	})
}
