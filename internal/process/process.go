// Package process is what the roles of one process share: clients, its Lease, health and metrics over HTTP, ConfigMaps, events,
// bounds of memory, and an orderly end.
//
// It promises that a process is ready when all its parts are, that the error of a part ends it, and that the other processes take
// over its work only after all its parts have ended. What a part does is not its business.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"sluice.dev/client/versioned"
	resolutionscheme "sluice.dev/client/versioned/scheme"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/resolve"
)

// Role is a task of a process, for its Lease and its log.
type Role struct {
	Name string
	// Does says what it does, ActsFor whose rights it uses.
	Does, ActsFor string
	// Listens are addresses, besides that of health and metrics.
	Listens []string
}

// ResolverRole is the role of a resolver.
func ResolverRole(resolver string) Role {
	return Role{
		Name: resolution.Role(resolver), Does: "answers ResolutionRequests for the resolver " + resolver,
		ActsFor: "requesters, with the Secrets of namespaces that bind sluice-resolver-credentials",
	}
}

// Part is work of a process. Run works until ctx is done, and calls ready when it has begun; its error ends the process.
type Part struct {
	Name string
	Run  func(ctx context.Context, ready func()) error
}

// Own is what the program sluice itself adds to a process that runs resolvers. It comes with the context, because package
// resolve/controller, by which everybody's resolvers run, names no internal types.
type Own struct {
	Version string
	// Roles are all roles of the process, those of its resolvers too. The first names the Lease.
	Roles []Role
	// Idles: a part that waits for a CRD keeps the process from nothing.
	Idles bool
	// Parts makes the parts of the other roles, when the process has joined the others; nil for none.
	Parts func(p *Process) ([]Part, error)
	// Make makes the resolvers, and Switches has the keys that switch them off; nil for none.
	Make     func(p *Process) (resolution.Make, error)
	Switches map[string]string
}

type ownKey struct{}

// WithOwn returns a context for sluice.dev/resolve/controller.Run with what the program adds.
func WithOwn(ctx context.Context, own *Own) context.Context {
	return context.WithValue(ctx, ownKey{}, own)
}

// OwnIn is what the program adds; nil if it is not sluice.
func OwnIn(ctx context.Context) *Own {
	own, _ := ctx.Value(ownKey{}).(*Own)
	return own
}

// Process is what the parts share. The exported fields are set before Run, but Metrics and Recorder, which New and Run make.
type Process struct {
	Config *rest.Config
	Kube   kubernetes.Interface
	Client versioned.Interface
	// Namespace and Account are those of the process. ConfigNamespace has the ConfigMaps, DefaultsNamespace that of time-outs.
	Namespace, Account, ConfigNamespace, DefaultsNamespace string
	// Listen is the address for health and metrics. Debug serves profiles there, and Flags, which may be nil.
	Listen  string
	Debug   bool
	Flags   *pflag.FlagSet
	Version string
	Roles   []Role
	Idles   bool
	Members *resolution.Members
	Memory  MemoryShares
	Server  *resolution.ServerClock
	Timeout *resolution.Timeout
	Tracer  trace.Tracer
	Log     *slog.Logger
	Clock   clock.WithTicker

	Registry *prometheus.Registry
	Metrics  *resolution.Metrics
	Recorder record.EventRecorder

	// configured is closed when the operator's time-out has been read, or cannot be.
	configured   <-chan struct{}
	parts        sync.WaitGroup
	health       health
	taken        sync.Map // the settings that the process has taken, by the name of the ConfigMap
	certificates *Certificates
}

// RegisterMetrics makes the metrics of every process.
func (p *Process) RegisterMetrics() {
	p.Registry = prometheus.NewRegistry()
	p.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.certificates = NewMetrics(p.Registry, p.Version)
	p.Metrics = resolution.NewMetrics(p.Registry)
}

// Go runs work that Run waits for at its end.
func (p *Process) Go(work func()) { p.parts.Go(work) }

// AwaitTimeout waits until the operator's time-out has been read, or cannot be.
func (p *Process) AwaitTimeout(ctx context.Context) { AwaitSignal(ctx, p.configured) }

// AwaitSignal waits until c is closed or ctx is done.
func AwaitSignal(ctx context.Context, c <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-c:
	}
}

// Run joins the other processes, makes the parts and runs them until ctx is done or one has failed.
func (p *Process) Run(ctx context.Context, parts func(ctx context.Context) ([]Part, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run := func(part Part) {
		ready := p.health.registerPart(part.Name)
		p.parts.Go(func() {
			if err := part.Run(ctx, sync.OnceFunc(ready)); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", part.Name, err))
			}
		})
	}
	// It outlives ctx: what is in work when the process is to end still makes events.
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)), record.WithCorrelatorOptions(record.CorrelatorOptions{SpamKeyFunc: spamKeyOf}))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: p.Kube.CoreV1().Events("")})
	p.Recorder = broadcaster.NewRecorder(resolutionscheme.Scheme, corev1.EventSource{Component: "sluice"})

	// Not ready before every part is known to be awaited.
	started := p.health.registerPart("start")
	run(Part{"http", p.serveHTTP})
	if err := p.Members.Join(ctx); err != nil {
		if ctx.Err() != nil { // a part has failed, or the process is to end
			p.parts.Wait()
			return endOf(ctx)
		}
		return fmt.Errorf("no access to the cluster: %w", err)
	}
	p.configured = p.WatchConfig(ctx, p.Go, resolution.TimeoutConfigMap, p.Timeout.Configure)
	made, err := parts(ctx)
	if err != nil {
		if ctx.Err() != nil && endOf(ctx) != nil {
			err = endOf(ctx)
		}
		cancel(nil)
		p.parts.Wait()
		return err
	}
	for _, part := range made {
		run(part)
	}
	started()
	// Last, and ended last: the others take over when this process has let go.
	membership, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	var lease sync.WaitGroup
	lease.Go(func() { p.Members.Run(membership) })
	p.tellRoles()
	p.Go(func() { p.shrinkAfterStart(ctx) })
	<-ctx.Done()
	p.parts.Wait()
	leave()
	lease.Wait()
	return endOf(ctx)
}

// startTime is when a process has begun to wait for work, however slow the API server is.
const startTime = 15 * time.Second

// shrinkAfterStart gives the memory back that only the start needs.
func (p *Process) shrinkAfterStart(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-p.Clock.After(startTime):
	}
	debug.FreeOSMemory()
	if err := releaseProgramPages(); err != nil {
		p.Log.Debug("the pages of the program stay in memory", "error", err)
	}
}

// endOf says why ctx has ended; nil: somebody wanted it to.
func endOf(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// WatchConfig watches a ConfigMap by run; the channel is closed when it has been read, or cannot be and is not needed.
func (p *Process) WatchConfig(ctx context.Context, run func(func()), name string, apply func(map[string]string) error) <-chan struct{} {
	read := make(chan struct{})
	namespace := p.ConfigNamespace
	if name == resolution.TimeoutConfigMap {
		namespace = cmp.Or(p.DefaultsNamespace, namespace)
	}
	w := &resolution.ConfigWatch{
		Kube: p.Kube, Namespace: namespace, Name: name, Apply: p.rememberTaken(name, apply), Log: p.Log, Recorder: p.Recorder,
		Optional: name == resolution.TimeoutConfigMap || name == resolve.CacheConfigMap,
	}
	run(func() { w.Run(ctx, sync.OnceFunc(func() { close(read) })) })
	return read
}

// serveHTTP serves health and metrics.
func (p *Process) serveHTTP(ctx context.Context, ready func()) error {
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
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.Registry, promhttp.HandlerOpts{}))
	if p.Debug {
		p.addDebug(mux)
	}
	return ListenUntilDone(ctx, p.Listen, mux, nil, p.ClientErrors(), ready)
}

// ClientErrors is where servers tell of clients that go away or do not trust us, as the API server does until it has been
// told of a new certificate: nothing that an operator has to know.
func (p *Process) ClientErrors() *log.Logger {
	return slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug)
}

// tellRoles writes a line for each role.
func (p *Process) tellRoles() {
	for _, role := range p.Roles {
		p.Log.Info("a role starts", "role", role.Name, "does", role.Does, "listens", append([]string{p.Listen}, role.Listens...), "namespace", p.Namespace, "id", p.Members.ID, "acts_for", role.ActsFor)
	}
}

// roleNames are the names of the roles.
func (p *Process) roleNames() []string {
	out := make([]string, len(p.Roles))
	for i, role := range p.Roles {
		out[i] = role.Name
	}
	return out
}

// spamKeyOf identifies the events that share a limit. Those of one object and one reason do: by client-go's own key, many events of
// one reason, such as Restored while two clients contend for a policy, leave no room for others of the object.
func spamKeyOf(e *corev1.Event) string {
	o := e.InvolvedObject
	return strings.Join([]string{e.Source.Component, o.APIVersion, o.Kind, o.Namespace, o.Name, string(o.UID), e.Type, e.Reason}, "/")
}
