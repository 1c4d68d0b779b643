package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/tracing"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"k8s.io/utils/clock"

	apiresolution "sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/process"
	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
)

// A process is made in this order: clients, memory, metrics and tracing; then the resolvers; then the watches of their ConfigMaps. It
// answers no request before each of these was read once, since a default may allow more than the operator's value.

// Starter is a resolver that has to be started, in a cluster only. Start is called once, before the first request; ctx ends with the process.
type Starter interface {
	Start(ctx context.Context) error
}

// Run runs resolvers in a cluster until ctx is done. The process then finishes what it writes, and leaves what is not finished to
// other replicas or to its next start; Run returns nil. Otherwise its error says why the process cannot work. A [Starter] is started
// first. A resolver that has a method Close, with or without an error, is closed at the end.
func Run(ctx context.Context, o Options, resolvers ...resolve.Resolver) error {
	own := process.OwnIn(ctx)
	if own == nil {
		if err := checkNames(resolvers); err != nil {
			return err
		}
		own = ownOf(resolvers)
	}
	if len(own.Roles) == 0 {
		return errors.New("there is no resolver to run")
	}
	o = o.withDefaults()
	o.Account = cmp.Or(o.Account, "sluice-"+own.Roles[0].Name)
	p, err := newProcess(o, own)
	if err != nil {
		return err
	}
	endTracing, err := startTracing(ctx, o, p)
	if err != nil {
		return err
	}
	defer endTracing()
	return p.Run(ctx, func(ctx context.Context) ([]process.Part, error) {
		var parts []process.Part
		if own.Parts != nil {
			var err error
			if parts, err = own.Parts(p); err != nil {
				return nil, err
			}
		}
		if own.Make == nil {
			return parts, nil
		}
		part, err := resolversPart(ctx, p, o, own)
		return append(parts, part), err
	})
}

// checkNames refuses names that the labels of requests cannot have: only those of TEP-0060 have aliases there.
func checkNames(resolvers []resolve.Resolver) error {
	for _, r := range resolvers {
		spec := r.Spec()
		for _, alias := range spec.Aliases {
			if !slices.Contains(apiresolution.Names(spec.Name), alias) {
				return fmt.Errorf("resolver %s: in a cluster it goes by its name alone: remove the alias %s", spec.Name, alias)
			}
		}
	}
	return nil
}

// ownOf describes a process that runs the resolvers and nothing else.
func ownOf(resolvers []resolve.Resolver) *process.Own {
	own := &process.Own{Version: process.BuildVersion()}
	for _, r := range resolvers {
		own.Roles = append(own.Roles, process.ResolverRole(r.Spec().Name))
	}
	own.Make = func(*process.Process) (resolution.Make, error) {
		return func(ctx context.Context, _ func() *verify.Policies) ([]resolve.Resolver, func() error, error) {
			return resolvers, func() error { return resolve.CloseAll(resolvers) }, startAll(ctx, resolvers)
		}, nil
	}
	return own
}

// startAll starts the resolvers that want it, one after the other, and stops at the first error.
func startAll(ctx context.Context, resolvers []resolve.Resolver) error {
	for _, r := range resolvers {
		if s, ok := r.(Starter); ok {
			if err := s.Start(ctx); err != nil {
				return fmt.Errorf("resolver %s: %w", r.Spec().Name, err)
			}
		}
	}
	return nil
}

// newProcess makes the clients of a process and divides its memory.
func newProcess(o Options, own *process.Own) (*process.Process, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no access to the cluster: %w", err)
	}
	roles := make([]string, len(own.Roles))
	for i, role := range own.Roles {
		roles[i] = role.Name
	}
	log, err := o.newLogger()
	if err != nil {
		return nil, err
	}
	// The server's own fairness decides what it can bear; client-go's default of 5 a second is for small clients.
	cfg.QPS, cfg.Burst, cfg.UserAgent = o.QPS, int(2*o.QPS), "sluice/"+strings.Join(roles, ",")
	times := clock.RealClock{}
	server := resolution.NewServerClock(times)
	cfg.Wrap(resolution.Disbelieve(times))
	cfg.Wrap(server.Watch)
	cfg.Wrap(resolution.Persist(times, log))
	p := &process.Process{
		Config: cfg, Namespace: o.Namespace, Account: o.Account, ConfigNamespace: o.ConfigNamespace, DefaultsNamespace: o.DefaultsNamespace,
		Listen: o.Listen, Debug: o.Debug, Flags: o.flags, Version: own.Version, Roles: own.Roles, Idles: own.Idles,
		Server: server, Timeout: &resolution.Timeout{}, Log: log, Clock: times,
	}
	if p.Memory, err = process.ApplyMemoryLimits(os.Getenv, o.Memory, own.Make != nil); err != nil {
		return nil, err
	}
	var errs [2]error
	p.Kube, errs[0] = kubernetes.NewForConfig(cfg)
	p.Client, errs[1] = versioned.NewForConfig(cfg)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	p.RegisterMetrics()
	id := cmp.Or(o.ID, os.Getenv("POD_NAME"), fmt.Sprintf("%s-%x", roles[0], times.Now().UnixNano()))
	p.Members = &resolution.Members{Kube: p.Kube, Namespace: o.Namespace, ID: id, Roles: roles, Clock: times, Log: log}
	return p, nil
}

// startTracing sends traces to where the options say; the function sends what is left.
func startTracing(ctx context.Context, o Options, p *process.Process) (end func(), err error) {
	if o.TraceEndpoint == "" {
		return func() {}, nil
	}
	if o.TraceRatio < 0 || o.TraceRatio > 1 {
		return nil, fmt.Errorf("--trace-ratio is %g, want a number from 0 to 1", o.TraceRatio)
	}
	provider, err := tracing.NewProvider(ctx, &tracingapi.TracingConfiguration{
		Endpoint: &o.TraceEndpoint, SamplingRatePerMillion: new(int32(o.TraceRatio * 1e6)),
	}, nil, []resource.Option{resource.WithAttributes(
		attribute.String("service.name", "sluice"), attribute.String("service.instance.id", p.Members.ID),
	)})
	if err != nil {
		return nil, fmt.Errorf("--trace-endpoint: %w", err)
	}
	p.Tracer = provider.Tracer("sluice.dev/resolution")
	return func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := provider.Shutdown(grace); err != nil {
			p.Log.Warn("the last traces could not be sent", "error", err)
		}
	}, nil
}

// requestsServed is what resolvers can do nothing without.
var requestsServed = []schema.GroupVersionResource{v1beta1.SchemeGroupVersion.WithResource("resolutionrequests")}

// resolversPart makes the resolvers, reads their ConfigMaps, publishes their schemas, and returns the part that answers requests.
func resolversPart(ctx context.Context, p *process.Process, o Options, own *process.Own) (process.Part, error) {
	none := process.Part{}
	build, err := own.Make(p)
	if err != nil {
		return none, err
	}
	defaults := map[string]map[string]string{}
	for _, role := range own.Roles {
		if name, ok := strings.CutPrefix(role.Name, resolution.Role("")); ok {
			defaults[name] = map[string]string{}
			maps.Copy(defaults[name], o.Defaults[name])
			if o.ContentKinds != "" {
				defaults[name][resolve.KeyContentKinds] = o.ContentKinds
			}
		}
	}
	rs, err := resolution.NewResolvers(ctx, build, own.Switches, resolve.Options{
		Observer: p.Metrics.Observer(p.Log), Limits: resolve.Limits{Content: int64(o.contentLimit())}, Defaults: defaults,
		Memory: resolve.NewMemory(p.Memory.Content),
	})
	if err != nil {
		return none, err
	}
	rs.MaxCache = p.Memory.Cache
	objects, err := dynamic.NewForConfig(p.Config)
	if err != nil {
		return none, errors.Join(err, rs.Close())
	}
	adapter := &resolution.Adapter{
		Client: p.Client, Kube: p.Kube, Resolvers: rs.Adapters(), Identity: rs.Identity(resolution.Owner{Dynamic: objects}), Namespace: p.Namespace, Account: p.Account,
		Members: p.Members, Slots: o.Slots, MaxData: o.MaxData, MaxContent: o.contentLimit(), Compress: o.Compress, Timeout: p.Timeout, Writes: resolve.NewMemory(p.Memory.Writes),
		Metrics: p.Metrics, Recorder: p.Recorder, Tracer: p.Tracer, Log: p.Log, Clock: p.Clock, Server: p.Server,
	}
	if o.Store != nil {
		adapter.Store = o.Store
	}
	// Publishers tell those who make requests which parameters there are. Nothing waits for them. None starts if a schema is wrong.
	var publishers []*resolution.SchemaPublisher
	for _, spec := range rs.Specs {
		schema, err := spec.Schema()
		if err != nil {
			return none, errors.Join(err, rs.Close())
		}
		publishers = append(publishers, &resolution.SchemaPublisher{Kube: p.Kube, Namespace: p.Namespace, Resolver: spec.Name, Schema: schema, Log: p.Log, Clock: p.Clock})
	}
	for _, publisher := range publishers {
		p.Go(func() { publisher.Run(ctx) })
	}
	var waits []<-chan struct{}
	for name, configure := range rs.ConfigMaps(ctx, resolution.Credentials{Kube: p.Kube, Namespace: p.Namespace, Account: p.Account}) {
		waits = append(waits, p.WatchConfig(ctx, p.Go, name, configure))
	}
	resolving := p.WhenServed("resolvers", requestsServed, func(ctx context.Context, ready func()) error {
		p.AwaitTimeout(ctx)
		for _, w := range waits {
			process.AwaitSignal(ctx, w)
		}
		return adapter.Run(ctx, ready)
	})
	return process.Part{Name: "resolvers", Run: func(ctx context.Context, ready func()) error {
		return errors.Join(resolving(ctx, ready), rs.Close())
	}}, nil
}
