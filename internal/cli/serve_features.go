package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"sluice.dev/internal/admission"
	"sluice.dev/internal/controller/features"
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

func (p *process) featureCluster() features.Cluster {
	return features.Cluster{Config: p.config, Kube: p.kube, CRDs: p.crds, Namespace: p.flags.namespace, Log: p.log, Clock: p.clock}
}

// featureMetrics are shared by the two roles.
func (p *process) featureMetrics() *features.Metrics {
	p.featuresOnce.Do(func() { p.featuresMetrics = features.NewMetrics(p.registry) })
	return p.featuresMetrics
}

// serveFeatures runs the controller of features.
func (p *process) serveFeatures(ctx context.Context, ready func()) error {
	c := &features.Controller{Cluster: p.featureCluster(), Members: p.members, Metrics: p.featureMetrics(), Recorder: p.recorder, UsageInterval: p.flags.features.usage}
	if c.UsageInterval == 0 {
		c.UsageInterval = -1 // as the flag has it
	}
	return c.Run(ctx, ready)
}

// serveFeatureWebhook serves the admission webhook for what policies cannot say.
func (p *process) serveFeatureWebhook(ctx context.Context, ready func()) error {
	f := p.flags.features
	h := &features.Webhook{Cluster: p.featureCluster(), Metrics: p.featureMetrics(), Requests: admission.NewIntake(featureRequests)}
	var wg sync.WaitGroup
	defer wg.Wait()
	// known is closed when all that is in force is known.
	known := make(chan struct{})
	failed := make(chan error, 1)
	wg.Go(func() { failed <- h.Run(ctx, sync.OnceFunc(func() { close(known) })) })
	cert := &servingcert.Certificate{
		Kube: p.kube, Namespace: p.flags.namespace, Secret: features.TLSSecret,
		Hosts: append([]string{fmt.Sprintf("%s.%s.svc", features.Service, p.flags.namespace)}, f.hosts...),
		Every: certificateLook, Clock: p.clock, Log: p.log,
		Tell: func(ctx context.Context, bundle []byte) error {
			awaitSignal(ctx, known) // nobody is to call before there is an answer
			return features.TellAddress(ctx, p.featureCluster(), f.url, bundle)
		},
	}
	certain := make(chan struct{})
	wg.Go(func() { cert.Run(ctx, sync.OnceFunc(func() { close(certain) })) })
	mux := http.NewServeMux()
	mux.Handle(features.HookPattern, h)
	err := listenUntilDone(ctx, f.listen, mux, &tls.Config{GetCertificate: p.certificates.watchCertificate(features.WebhookRole, cert.Get), MinVersion: tls.VersionTLS12}, p.clientErrors(), func() {
		wg.Go(func() {
			awaitSignal(ctx, known)
			awaitSignal(ctx, certain)
			if ctx.Err() == nil {
				ready()
			}
		})
	})
	if err != nil {
		return err
	}
	return <-failed
}
