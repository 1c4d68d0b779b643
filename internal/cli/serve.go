package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/tracing"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"k8s.io/utils/clock"

	"sluice.dev/client/versioned"
	resolutionscheme "sluice.dev/client/versioned/scheme"
	"sluice.dev/internal/cli/command"
	resolvecmd "sluice.dev/internal/cli/resolve"
	"sluice.dev/internal/controller/delivery"
	"sluice.dev/internal/controller/features"
	"sluice.dev/internal/controller/guard"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve"
)

const allRoles = "all"

// serveFlags are the flags of sluice serve.
type serveFlags struct {
	roles                      []string
	kubeconfig                 string
	namespace, configNamespace string
	defaultsNamespace          string
	contentKinds               string
	account, id                string
	listen, webhookListen      string
	slots, maxData, maxContent int
	compress, wideAddresses    bool
	cacheDir                   string
	dirs, others               []string
	ttl                        time.Duration
	qps                        float32
	traceEndpoint              string
	traceRatio                 float64
	memory                     string
	flux                       string
	guard                      guardFlags
	features                   featureWebhookFlags

	resolvecmd.StoreFlags
	watchFlags
}

func newServe(e *command.Env) *cobra.Command {
	var f serveFlags
	table := resolvers.Table()
	cmd := &cobra.Command{
		Use:   "serve --roles=ROLE,...",
		Short: "Run controllers and resolvers in a cluster",
		Long: `Run controllers and resolvers in a cluster. Each is a role of this process. Several processes can have the same role: they divide the
requests among them.

Roles: ` + strings.Join(append(roleNames(table), allRoles), ", ") + `.

The process serves /healthz, /readyz and /metrics at --listen. Each role logs its task and the clients that it serves.
On SIGTERM the process stops cleanly: another process, or the next one, takes over its unfinished requests.`,
		Example: `  sluice serve --roles resolution,resolver-git --namespace sluice-system`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveRoles(cmd.Context(), e, f, table)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.roles, "roles", nil, "roles of this process, separated by commas")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; default: the cluster in which the process runs, or $KUBECONFIG")
	flags.StringVar(&f.namespace, "namespace", "sluice-system", "namespace of this process, for Leases")
	flags.StringVar(&f.configNamespace, "config-namespace", "sluice-system", "namespace of the ConfigMaps (tekton-pipelines-resolvers beside Tekton)")
	flags.StringVar(&f.defaultsNamespace, "defaults-namespace", "", "namespace of the ConfigMap config-defaults (tekton-pipelines beside Tekton); default: --config-namespace")
	flags.StringVar(&f.account, "service-account", "", "name of this process's ServiceAccount, for messages; default: sluice-ROLE")
	flags.StringVar(&f.id, "id", "", "name of this process among its replicas; default: $POD_NAME, or a random one")
	flags.StringVar(&f.listen, "listen", ":8080", "address for health and metrics")
	flags.StringVar(&f.webhookListen, "webhook-listen", ":8443", "address of the conversion webhook, in the role resolution")
	flags.IntVar(&f.slots, "slots", 0, "number of requests that are processed at once; default 512")
	flags.IntVar(&f.maxData, "max-data", resolution.DefaultMaxData, "limit of the content in a request, in bytes")
	flags.BoolVar(&f.compress, "compress", false, "compress content over --max-data; clients have to support it")
	f.AddStore(flags, "repository in an OCI registry, REGISTRY/PATH, for content that is still over --max-data; clients have to support it")
	flags.IntVar(&f.maxContent, "max-content", resolution.DefaultMaxContent, "limit of content that is compressed or stored, in bytes")
	flags.BoolVar(&f.wideAddresses, "wide-addresses", false, "allow private addresses and plain http in requests, unless the resolver's ConfigMap forbids it")
	flags.StringVar(&f.contentKinds, "content-kinds", "", "kinds that content can have, unless the resolver's ConfigMap sets them, for example "+resolve.TektonKinds+"; default: all")
	flags.StringVar(&f.cacheDir, "cache-dir", "", "folder for mirrors of repositories, which no other process uses; default: a temporary one")
	flags.StringArrayVar(&f.dirs, "dir", nil, "directory of the resolver dir, as PATH or NAME=PATH (may be repeated)")
	flags.StringSliceVar(&f.others, "other-resolvers", nil, "for the role resolution, names of resolvers that are not part of Sluice, or * for any; requests for all other unknown resolvers fail soon")
	flags.DurationVar(&f.ttl, "ttl", resolution.DefaultTTL, "how long to keep finished requests without an owner; negative: for ever")
	flags.Float32Var(&f.qps, "qps", 500, "calls per second to the API server")
	flags.StringVar(&f.traceEndpoint, "trace-endpoint", "", "host:port of a collector for OpenTelemetry traces over gRPC; default: no traces")
	flags.Float64Var(&f.traceRatio, "trace-ratio", 1, "share of the requests to trace, from 0 to 1")
	flags.StringVar(&f.memory, "memory", "", "memory limit of the process, for example 512Mi; default: the limit of its container, or 512Mi")
	flags.StringVar(&f.flux, "flux-source-controller", fluxController, "for the role delivery, HOST or HOST:PORT of the artifacts of Flux's sources; empty: no such sources")
	f.guard.addTo(flags)
	f.features.addTo(flags)
	f.addTo(flags)
	return cmd
}

// contentLimit is how many bytes content may have, wherever it is kept.
func (f *serveFlags) contentLimit() int {
	if f.compress || f.Store != "" {
		return max(f.maxData, f.maxContent)
	}
	return f.maxData
}

// resolverDefaults are the values that keys of the resolvers' ConfigMaps have where an operator has set none.
func (f *serveFlags) resolverDefaults(entries []resolvers.Entry) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, e := range entries {
		out[e.Name] = map[string]string{}
		if f.wideAddresses {
			for _, key := range e.Wide {
				out[e.Name][key] = "true"
			}
		}
		if f.contentKinds != "" {
			out[e.Name][resolve.KeyContentKinds] = f.contentKinds
		}
	}
	return out
}

// roleNames lists the roles of this build.
func roleNames(table []resolvers.Entry) []string {
	out := []string{resolution.LifecycleRole, guard.Role, delivery.Role, features.Role, features.WebhookRole}
	for _, r := range table {
		out = append(out, resolution.Role(r.Name))
	}
	return out
}

// chosenRoles judges --roles.
func chosenRoles(asked []string, table []resolvers.Entry) ([]string, error) {
	known := roleNames(table)
	if len(asked) == 0 {
		return nil, fmt.Errorf("--roles is required; this build has %s and %s", strings.Join(known, ", "), allRoles)
	}
	if slices.Contains(asked, allRoles) {
		return known, nil
	}
	var out []string
	for _, r := range asked {
		if !slices.Contains(known, r) {
			return nil, fmt.Errorf("this build has no role %q; it has %s and %s", r, strings.Join(known, ", "), allRoles)
		}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out, nil
}

// process is what the roles of a process share.
type process struct {
	flags    serveFlags
	roles    []string
	config   *rest.Config
	kube     kubernetes.Interface
	client   versioned.Interface
	dynamic  dynamic.Interface
	crds     apiextensions.Interface
	members  *resolution.Members
	metrics  *resolution.Metrics
	registry *prometheus.Registry
	recorder record.EventRecorder
	log      *slog.Logger
	clock    clock.WithTicker
	server   *resolution.ServerClock
	timeout  *resolution.Timeout
	memory   memoryShares
	tracer   trace.Tracer

	featuresOnce    sync.Once
	featuresMetrics *features.Metrics

	health       health
	inForce      inForce
	certificates *certificates
}

func serveRoles(ctx context.Context, e *command.Env, f serveFlags, table []resolvers.Entry) error {
	roles, err := chosenRoles(f.roles, table)
	if err != nil {
		return err
	}
	p, err := newProcess(e, f, roles)
	if err != nil {
		return err
	}
	endTracing, err := p.startTracing(ctx)
	if err != nil {
		return err
	}
	defer endTracing()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	// run runs a part of the process; its error ends the process.
	run := func(name string, part func(ctx context.Context, ready func()) error) {
		ready := p.health.registerPart(name)
		parts.Go(func() {
			if err := part(ctx, sync.OnceFunc(ready)); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	// It outlives ctx: what is in work when the process is to end still makes events.
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)), record.WithCorrelatorOptions(record.CorrelatorOptions{SpamKeyFunc: spamKeyOf}))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: p.kube.CoreV1().Events("")})
	p.recorder = broadcaster.NewRecorder(resolutionscheme.Scheme, corev1.EventSource{Component: "sluice"})

	// Not ready before every part is known to be awaited.
	started := p.health.registerPart("start")
	run("http", p.serveHTTP)
	if err := p.members.Join(ctx); err != nil {
		if ctx.Err() != nil { // a part has failed, or the process is to end
			parts.Wait()
			return endOf(ctx)
		}
		return fmt.Errorf("no access to the cluster: %w", err)
	}
	configured := p.watchConfig(ctx, &parts, resolution.TimeoutConfigMap, p.timeout.Configure)
	if slices.Contains(roles, resolution.LifecycleRole) {
		run("lifecycle", p.whenServed("lifecycle", requestsServed, func(ctx context.Context, ready func()) error {
			known := &resolution.Known{Kube: p.kube, Namespace: p.flags.namespace, Members: p.members, Others: f.others, Log: p.log}
			parts.Go(func() { known.Run(ctx) })
			l := &resolution.Lifecycle{
				Client: p.client, Members: p.members, Known: known, Timeout: p.timeout, TTL: f.ttl,
				Metrics: p.metrics, Recorder: p.recorder, Log: p.log, Clock: p.clock, Server: p.server,
			}
			awaitSignal(ctx, configured)
			return l.Run(ctx, ready)
		}))
		run("webhook", p.whenServed("webhook", requestsServed, p.serveWebhook))
	}
	if slices.Contains(roles, guard.Role) {
		run(guard.Role, p.serveGuard)
	}
	if slices.Contains(roles, delivery.Role) {
		run(delivery.Role, p.whenServed(delivery.Role, slices.Concat(deliveriesServed, requestsServed), p.serveDelivery))
	}
	if slices.Contains(roles, features.Role) {
		run(features.Role, p.whenServed(features.Role, featuresServed, p.serveFeatures))
	}
	if slices.Contains(roles, features.WebhookRole) {
		run(features.WebhookRole, p.whenServed(features.WebhookRole, featuresServed, p.serveFeatureWebhook))
	}
	if err := p.startResolvers(ctx, e, table, run, &parts, configured); err != nil {
		if ctx.Err() != nil && endOf(ctx) != nil {
			err = endOf(ctx)
		}
		cancel(nil)
		parts.Wait()
		return err
	}
	started()
	// Last, and ended last: the others take over when this process has let go.
	membership, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	var lease sync.WaitGroup
	lease.Go(func() { p.members.Run(membership) })
	p.tellRoles()
	<-ctx.Done()
	parts.Wait()
	leave()
	lease.Wait()
	return endOf(ctx)
}

// endOf says why ctx has ended; nil: somebody wanted it to.
func endOf(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// startResolvers starts those of the table that the process has a role for.
func (p *process) startResolvers(ctx context.Context, e *command.Env, table []resolvers.Entry, run func(string, func(context.Context, func()) error), parts *sync.WaitGroup, configured <-chan struct{}) error {
	var mine []resolvers.Entry
	for _, r := range table {
		if slices.Contains(p.roles, resolution.Role(r.Name)) {
			mine = append(mine, r)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	directories, err := resolvecmd.Roots(p.flags.dirs)
	if err != nil {
		return err
	}
	if len(directories) == 0 {
		// Without a directory there is nothing to serve; a process that has only this role is told.
		if mine = slices.DeleteFunc(mine, func(r resolvers.Entry) bool { return r.Name == "dir" && len(p.roles) > 1 }); len(mine) == 1 && mine[0].Name == "dir" {
			return errors.New("the role resolver-dir needs --dir")
		}
	}
	folder, remove, err := resolvecmd.CacheFolder(p.flags.cacheDir)
	if err != nil {
		return fmt.Errorf("no folder for mirrors: %w; name one with --cache-dir", err)
	}
	credentials := resolution.Credentials{Kube: p.kube, Namespace: p.flags.namespace, Account: p.flags.account}
	tells := resolve.SystemClock()
	rs, err := resolvecmd.NewResolvers(ctx, mine, resolvers.Env{
		Clock: tells, Getenv: e.Getenv, Network: resolvecmd.Network(e, tells), Cache: folder, CacheFull: p.tellCacheFull(folder), ProcessMemory: p.memory.processes, Roots: directories, Cluster: p.config, Accounts: credentials,
	}, resolve.Options{
		Observer: p.metrics.Observer(p.log), Limits: resolve.Limits{Content: int64(p.flags.contentLimit())}, Defaults: p.flags.resolverDefaults(mine),
		Memory: resolve.NewMemory(p.memory.content),
	})
	if err != nil {
		return errors.Join(err, remove())
	}
	rs.MaxCache = p.memory.cache
	waits := []<-chan struct{}{configured}
	for name, configure := range rs.ConfigMaps(ctx, credentials) {
		waits = append(waits, p.watchConfig(ctx, parts, name, configure))
	}
	if err := p.publishSchemas(ctx, rs.Specs, parts); err != nil {
		return errors.Join(err, rs.Close(), remove())
	}
	adapter := p.newAdapter(rs)
	if p.flags.Store != "" {
		if adapter.Store, err = p.flags.Open(); err != nil {
			return errors.Join(err, rs.Close(), remove())
		}
	}
	resolving := p.whenServed("resolvers", requestsServed, func(ctx context.Context, ready func()) error {
		for _, w := range waits {
			awaitSignal(ctx, w)
		}
		return adapter.Run(ctx, ready)
	})
	run("resolvers", func(ctx context.Context, ready func()) error {
		err := resolving(ctx, ready)
		return errors.Join(err, rs.Close(), remove())
	})
	return nil
}

// tellCacheFull returns the function that says by log, metric and Lease whether the folder of the cache can be used.
func (p *process) tellCacheFull(folder string) func(bool) {
	p.metrics.SetCacheFull(false)
	return func(full bool) {
		p.metrics.SetCacheFull(full)
		if full {
			trouble := "the volume of " + folder + " has no room or cannot be written; the resolver git works without its cache, slowly"
			p.members.SetTrouble(trouble)
			p.log.Warn(trouble)
			return
		}
		p.members.SetTrouble("")
		p.log.Info("the resolver git uses its cache again", "folder", folder)
	}
}

// publishSchemas tells those who make requests which parameters there are. Nothing waits for it.
func (p *process) publishSchemas(ctx context.Context, specs []resolve.Spec, parts *sync.WaitGroup) error {
	for _, spec := range specs {
		schema, err := spec.Schema()
		if err != nil {
			return err
		}
		publisher := &resolution.SchemaPublisher{
			Kube: p.kube, Namespace: p.flags.namespace, Resolver: spec.Name, Schema: schema, Log: p.log, Clock: p.clock,
		}
		parts.Go(func() { publisher.Run(ctx) })
	}
	return nil
}

func awaitSignal(ctx context.Context, c <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-c:
	}
}

func newProcess(e *command.Env, f serveFlags, roles []string) (*process, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no access to the cluster: %w", err)
	}
	// The server's own fairness decides what it can bear; client-go's default of 5 a second is for small clients.
	cfg.QPS, cfg.Burst, cfg.UserAgent = f.qps, int(2*f.qps), "sluice/"+strings.Join(roles, ",")
	cfg.Wrap(resolution.Disbelieve(clock.RealClock{}))
	server := resolution.NewServerClock(clock.RealClock{})
	cfg.Wrap(server.Watch)
	log, err := f.newLogger(e.Err)
	if err != nil {
		return nil, err
	}
	cfg.Wrap(resolution.Persist(clock.RealClock{}, log))
	p := &process{
		flags: f, roles: roles, config: cfg, clock: clock.RealClock{}, server: server, timeout: &resolution.Timeout{},
		registry: prometheus.NewRegistry(), log: log,
	}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.certificates = processMetrics(p.registry)
	p.metrics = resolution.NewMetrics(p.registry)
	runsResolver := slices.ContainsFunc(roles, func(r string) bool { return strings.HasPrefix(r, resolution.Role("")) })
	if p.memory, err = applyMemoryLimits(e.Getenv, f.memory, runsResolver); err != nil {
		return nil, err
	}
	var errs [4]error
	p.kube, errs[0] = kubernetes.NewForConfig(cfg)
	p.client, errs[1] = versioned.NewForConfig(cfg)
	p.dynamic, errs[2] = dynamic.NewForConfig(cfg)
	p.crds, errs[3] = apiextensions.NewForConfig(cfg)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	p.flags.account = cmp.Or(p.flags.account, "sluice-"+roles[0])
	id := cmp.Or(f.id, e.Getenv("POD_NAME"), fmt.Sprintf("%s-%x", roles[0], e.Now().UnixNano()))
	p.members = &resolution.Members{Kube: p.kube, Namespace: f.namespace, ID: id, Roles: roles, Clock: p.clock, Log: p.log}
	return p, nil
}

// startTracing sends traces to where the flags say; the function sends what is left.
func (p *process) startTracing(ctx context.Context) (end func(), err error) {
	if p.flags.traceEndpoint == "" {
		return func() {}, nil
	}
	if p.flags.traceRatio < 0 || p.flags.traceRatio > 1 {
		return nil, fmt.Errorf("--trace-ratio is %g, want a number from 0 to 1", p.flags.traceRatio)
	}
	provider, err := tracing.NewProvider(ctx, &tracingapi.TracingConfiguration{
		Endpoint: &p.flags.traceEndpoint, SamplingRatePerMillion: new(int32(p.flags.traceRatio * 1e6)),
	}, nil, []resource.Option{resource.WithAttributes(
		attribute.String("service.name", "sluice"), attribute.String("service.instance.id", p.members.ID),
	)})
	if err != nil {
		return nil, fmt.Errorf("--trace-endpoint: %w", err)
	}
	p.tracer = provider.Tracer("sluice.dev/resolution")
	return func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := provider.Shutdown(grace); err != nil {
			p.log.Warn("the last traces could not be sent", "error", err)
		}
	}, nil
}

func (p *process) newAdapter(r *resolvecmd.Resolvers) *resolution.Adapter {
	return &resolution.Adapter{
		Client: p.client, Kube: p.kube, Resolvers: r.Adapters(), Identity: r.Identity(resolution.Owner{Dynamic: p.dynamic}), Namespace: p.flags.namespace, Account: p.flags.account,
		Members: p.members, Slots: p.flags.slots, MaxData: p.flags.maxData, MaxContent: p.flags.contentLimit(), Compress: p.flags.compress, Timeout: p.timeout, Writes: resolve.NewMemory(p.memory.writes),
		Metrics: p.metrics, Recorder: p.recorder, Tracer: p.tracer, Log: p.log, Clock: p.clock, Server: p.server,
	}
}

// watchConfig watches a ConfigMap; the channel is closed when it has been read, or cannot be and is not needed.
func (p *process) watchConfig(ctx context.Context, parts *sync.WaitGroup, name string, apply func(map[string]string) error) <-chan struct{} {
	read := make(chan struct{})
	namespace := p.flags.configNamespace
	if name == resolution.TimeoutConfigMap {
		namespace = cmp.Or(p.flags.defaultsNamespace, namespace)
	}
	w := &resolution.ConfigWatch{
		Kube: p.kube, Namespace: namespace, Name: name, Apply: p.inForce.rememberTaken(name, apply), Log: p.log, Recorder: p.recorder,
		Optional: name == resolution.TimeoutConfigMap || name == resolve.CacheConfigMap,
	}
	parts.Go(func() { w.Run(ctx, sync.OnceFunc(func() { close(read) })) })
	return read
}

// serveHTTP serves health and metrics.
func (p *process) serveHTTP(ctx context.Context, ready func()) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		missing, idle := p.health.waitingAndIdle()
		if len(missing) > 0 {
			http.Error(w, "not ready: "+strings.Join(missing, ", "), http.StatusServiceUnavailable)
			return
		}
		for _, line := range idle {
			// Who asks may be gone.
			_, _ = fmt.Fprintln(w, line)
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}))
	if p.flags.debug {
		p.addDebug(mux)
	}
	return listenUntilDone(ctx, p.flags.listen, mux, nil, p.clientErrors(), ready)
}

// serveWebhook serves the conversion webhook.
func (p *process) serveWebhook(ctx context.Context, ready func()) error {
	cert := resolution.NewCertificate(p.kube, p.crds, p.flags.namespace, p.clock, p.log)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { cert.Run(ctx, ready) })
	mux := http.NewServeMux()
	mux.Handle("POST /convert", resolution.NewConverter())
	return listenUntilDone(ctx, p.flags.webhookListen, mux, &tls.Config{GetCertificate: p.certificates.watchCertificate("resolution", cert.Get), MinVersion: tls.VersionTLS12}, p.clientErrors(), func() {})
}

// clientErrors is where servers tell of clients that go away or do not trust us, as the API server does until it has been
// told of a new certificate: nothing that an operator has to know.
func (p *process) clientErrors() *log.Logger {
	return slog.NewLogLogger(p.log.Handler(), slog.LevelDebug)
}

// spamKeyOf identifies the events that share a limit. Those of one object and one reason do: by client-go's own key, many events of one
// reason, such as Restored while two clients contend for a policy, leave no room for others of the object.
func spamKeyOf(e *corev1.Event) string {
	o := e.InvolvedObject
	return strings.Join([]string{e.Source.Component, o.APIVersion, o.Kind, o.Namespace, o.Name, string(o.UID), e.Type, e.Reason}, "/")
}
