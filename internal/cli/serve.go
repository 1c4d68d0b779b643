package cli

// Which parts of Sluice does a process run? The flag --roles chooses them. A role is a controller, a webhook, or a
// resolver; each has a part that waits until the cluster serves its kinds. Package process has what all share,
// such as leases, metrics and the health check. This file turns flags into these parts: for example,
// --roles=features,feature-webhook runs the controller of features and its webhook in one process.

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/admission"
	"sluice.dev/internal/cli/command"
	resolvecmd "sluice.dev/internal/cli/resolve"
	"sluice.dev/internal/controller/delivery"
	"sluice.dev/internal/controller/features"
	"sluice.dev/internal/controller/guard"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/process"
	"sluice.dev/internal/resolvers"
	"sluice.dev/internal/servingcert"
	"sluice.dev/requester"
	"sluice.dev/resolve"
	"sluice.dev/resolve/controller"
	"sluice.dev/resolve/netguard"
	"sluice.dev/resolve/verify"
)

const allRoles = "all"

// serveFlags are the flags of sluice serve: those of every resolver, and its own.
type serveFlags struct {
	controller.Options
	resolvecmd.StoreFlags

	roles         []string
	webhookListen string
	wideAddresses bool
	cacheDir      string
	dirs, others  []string
	ttl           time.Duration
	flux          string
	guard         guardFlags
	features      featureWebhookFlags
}

// newServe returns the command serve. Its flags are those of all roles, whichever the process has.
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
	f.AddFlags(flags)
	f.AddStore(flags, "repository in an OCI registry, REGISTRY/PATH, for content that is still over --max-data; clients have to support it")
	flags.StringVar(&f.webhookListen, "webhook-listen", ":8443", "address of the conversion webhook, in the role resolution")
	flags.BoolVar(&f.wideAddresses, "wide-addresses", false, "allow private addresses and plain http in requests, unless the resolver's ConfigMap forbids it")
	flags.StringVar(&f.cacheDir, "cache-dir", "", "folder for mirrors of repositories, which no other process uses; default: a temporary one")
	flags.StringArrayVar(&f.dirs, "dir", nil, "directory of the resolver dir, as PATH or NAME=PATH (may be repeated)")
	flags.StringSliceVar(&f.others, "other-resolvers", nil, "for the role resolution, names of resolvers that are not part of Sluice, or * for any; requests for all other unknown resolvers fail soon")
	flags.DurationVar(&f.ttl, "ttl", resolution.DefaultTTL, "how long to keep finished requests without an owner; negative: for ever")
	flags.StringVar(&f.flux, "flux-source-controller", fluxController, "for the role delivery, HOST or HOST:PORT of the artifacts of Flux's sources; empty: no such sources")
	f.guard.addTo(flags)
	f.features.addTo(flags)
	return cmd
}

// wideDefaults are the values of the keys that open what Tekton's resolvers have open, where an operator has set none.
func wideDefaults(entries []resolvers.Entry) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, e := range entries {
		out[e.Name] = map[string]string{}
		for _, key := range e.Wide {
			out[e.Name][key] = "true"
		}
	}
	return out
}

// roleNames lists the roles of this build. Those of resolvers come last, in the order of the table.
func roleNames(table []resolvers.Entry) []string {
	out := []string{resolution.LifecycleRole, guard.Role, delivery.Role, features.Role, features.WebhookRole}
	for _, r := range table {
		out = append(out, resolution.Role(r.Name))
	}
	return out
}

// chosenRoles judges --roles. all stands for every role. A role that is asked for twice counts once; an unknown
// one is an error that lists the others.
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

// server is a process of sluice serve.
type server struct {
	*process.Process

	flags serveFlags
	roles []string
	crds  apiextensions.Interface

	// featureMetrics are shared by the two roles about features.
	featureMetrics func() *features.Metrics
}

// What roles can do nothing without.
var (
	requestsServed   = []schema.GroupVersionResource{v1beta1.SchemeGroupVersion.WithResource("resolutionrequests")}
	deliveriesServed = []schema.GroupVersionResource{v1alpha1.SchemeGroupVersion.WithResource("deliveries")}
	featuresServed   = []schema.GroupVersionResource{
		v1alpha1.SchemeGroupVersion.WithResource("components"), v1alpha1.SchemeGroupVersion.WithResource("features"),
		v1alpha1.SchemeGroupVersion.WithResource("featurereports"),
	}
)

// serveRoles runs the roles, the resolvers of the table as everybody's resolvers run. It returns when ctx is done,
// or with an error if the process cannot run.
func serveRoles(ctx context.Context, e *command.Env, f serveFlags, table []resolvers.Entry) error {
	roles, err := chosenRoles(f.roles, table)
	if err != nil {
		return err
	}
	s := &server{flags: f, roles: roles}
	own := &process.Own{Version: versionOfBuild(), Idles: slices.Contains(f.roles, allRoles), Parts: s.partsOfRoles}
	for _, role := range roles {
		own.Roles = append(own.Roles, f.roleNamed(role))
	}
	mine, err := s.resolversOfRoles(table)
	if err != nil {
		return err
	}
	o := f.Options
	o.Log = e.Err
	if len(mine) > 0 {
		own.Switches = resolvecmd.FlagsOf(mine)
		if f.wideAddresses {
			o.Defaults = wideDefaults(mine)
		}
		own.Make = func(p *process.Process) (resolution.Make, error) { return s.makeOf(p, e, mine) }
		if f.StoreFlags.Store != "" {
			if o.Store, err = f.Open(); err != nil {
				return err
			}
		}
	}
	return controller.Run(process.WithOwn(ctx, own), o)
}

// partsOfRoles makes the parts of the roles that are no resolvers. A part starts when the cluster serves the
// resources that it needs, so the CRDs may be installed after the process.
func (s *server) partsOfRoles(shared *process.Process) ([]process.Part, error) {
	s.Process = shared
	s.featureMetrics = sync.OnceValue(func() *features.Metrics { return features.NewMetrics(s.Registry) })
	var err error
	if s.crds, err = apiextensions.NewForConfig(s.Config); err != nil {
		return nil, err
	}
	var parts []process.Part
	// A role may have several parts, as lifecycle has its webhook.
	add := func(role, name string, needs []schema.GroupVersionResource, run func(ctx context.Context, ready func()) error) {
		if slices.Contains(s.roles, role) {
			parts = append(parts, process.Part{Name: name, Run: s.WhenServed(name, needs, run)})
		}
	}
	add(resolution.LifecycleRole, "lifecycle", requestsServed, s.runLifecycle)
	add(resolution.LifecycleRole, "webhook", requestsServed, s.serveWebhook)
	add(guard.Role, guard.Role, nil, s.serveGuard)
	add(delivery.Role, delivery.Role, slices.Concat(deliveriesServed, requestsServed), s.serveDelivery)
	add(features.Role, features.Role, featuresServed, s.serveFeatures)
	add(features.WebhookRole, features.WebhookRole, featuresServed, s.serveFeatureWebhook)
	return parts, nil
}

// runLifecycle ends and deletes requests.
func (s *server) runLifecycle(ctx context.Context, ready func()) error {
	known := &resolution.Known{Kube: s.Kube, Namespace: s.Namespace, Members: s.Members, Others: s.flags.others, Log: s.Log}
	s.Go(func() { known.Run(ctx) })
	l := &resolution.Lifecycle{
		Client: s.Client, Members: s.Members, Known: known, Timeout: s.Timeout, TTL: s.flags.ttl,
		Metrics: s.Metrics, Recorder: s.Recorder, Log: s.Log, Clock: s.Clock, Server: s.Server,
	}
	s.AwaitTimeout(ctx)
	return l.Run(ctx, ready)
}

// resolversOfRoles returns those of the table that the process has a role for.
func (s *server) resolversOfRoles(table []resolvers.Entry) ([]resolvers.Entry, error) {
	var mine []resolvers.Entry
	for _, r := range table {
		if slices.Contains(s.roles, resolution.Role(r.Name)) {
			mine = append(mine, r)
		}
	}
	if len(s.flags.dirs) > 0 {
		return mine, nil
	}
	// Without a directory there is nothing to serve; a process that has only this role is told.
	if mine = slices.DeleteFunc(mine, func(r resolvers.Entry) bool { return r.Name == "dir" && len(s.roles) > 1 }); len(mine) == 1 && mine[0].Name == "dir" {
		return nil, errors.New("the role resolver-dir needs --dir")
	}
	return mine, nil
}

// makeOf returns what makes the resolvers of this build, with what the process lends them. The folder of the cache
// is removed at the end if it is a temporary one.
func (s *server) makeOf(shared *process.Process, e *command.Env, mine []resolvers.Entry) (resolution.Make, error) {
	directories, err := resolvecmd.Roots(s.flags.dirs)
	if err != nil {
		return nil, err
	}
	folder, remove, err := resolvecmd.CacheFolder(s.flags.cacheDir)
	if err != nil {
		return nil, fmt.Errorf("no folder for mirrors: %w; name one with --cache-dir", err)
	}
	tells := resolve.SystemClock()
	build := resolvecmd.MakeOf(mine, resolvers.Env{
		Clock: tells, Getenv: e.Getenv, Network: resolvecmd.Network(e, tells), Cache: folder, CacheFull: tellCacheFull(shared, folder), ProcessMemory: shared.Memory.Processes, Roots: directories, Cluster: shared.Config,
		Accounts: resolution.Credentials{Kube: shared.Kube, Namespace: shared.Namespace, Account: shared.Account},
	})
	return func(ctx context.Context, policies func() *verify.Policies) ([]resolve.Resolver, func() error, error) {
		list, free, err := build(ctx, policies)
		return list, func() error { return errors.Join(free(), remove()) }, err
	}, nil
}

// tellCacheFull returns the function that says by log, metric and Lease whether the folder of the cache can be
// used. It is called with each change only.
func tellCacheFull(p *process.Process, folder string) func(bool) {
	p.Metrics.SetCacheFull(false)
	return func(full bool) {
		p.Metrics.SetCacheFull(full)
		if full {
			trouble := "the volume of " + folder + " has no room or cannot be written; the resolver git works without its cache, slowly"
			p.Members.SetTrouble(trouble)
			p.Log.Warn(trouble)
			return
		}
		p.Members.SetTrouble("")
		p.Log.Info("the resolver git uses its cache again", "folder", folder)
	}
}

// serveWebhook serves the conversion webhook. The webhook converts ResolutionRequests between v1alpha1 and
// v1beta1.
func (s *server) serveWebhook(ctx context.Context, ready func()) error {
	cert := resolution.NewCertificate(s.Kube, s.crds, s.Namespace, s.Clock, s.Log)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { cert.Run(ctx, ready) })
	mux := http.NewServeMux()
	mux.Handle("POST /convert", resolution.NewConverter())
	return process.ListenUntilDone(ctx, s.flags.webhookListen, mux, &tls.Config{GetCertificate: s.WatchCertificate("resolution", cert.Get), MinVersion: tls.VersionTLS12}, s.ClientErrors(), func() {})
}

const actsForItself = "itself"

// roleNamed describes a role. What a role does, and whose rights it uses, is in the log at the start, for
// operators who read nothing else.
func (f *serveFlags) roleNamed(role string) process.Role {
	switch role {
	case resolution.LifecycleRole:
		return process.Role{Name: role, Does: "ends ResolutionRequests that time out, deletes old ones, converts versions", ActsFor: actsForItself, Listens: []string{f.webhookListen}}
	case guard.Role:
		return process.Role{Name: role, Does: "judges changes of CRDs at admission", ActsFor: actsForItself, Listens: []string{f.guard.listen}}
	case delivery.Role:
		return process.Role{Name: role, Does: "fetches the sources of Deliveries and applies them", ActsFor: "ServiceAccounts of namespaces that bind sluice-delivery-impersonate"}
	case features.Role:
		return process.Role{Name: role, Does: "writes the admission policies of Components, and their status", ActsFor: actsForItself}
	case features.WebhookRole:
		return process.Role{Name: role, Does: "judges at admission what policies of Components cannot express", ActsFor: actsForItself, Listens: []string{f.features.listen}}
	}
	return process.ResolverRole(strings.TrimPrefix(role, resolution.Role("")))
}

// fluxController is where Flux serves its artifacts, and maxArchive bounds one, in bytes.
const (
	fluxController = "source-controller.flux-system.svc.cluster.local"
	maxArchive     = 16 << 20
)

// serveDelivery runs the controller of deliveries. With --store, content that is too large for a request comes
// from there.
func (s *server) serveDelivery(ctx context.Context, ready func()) error {
	archive, err := archiveFetcherFor(s.flags.flux)
	if err != nil {
		return err
	}
	c := &delivery.Controller{
		Config: s.Config, Kube: s.Kube, Client: s.Client, Namespace: s.Namespace, Members: s.Members, Metrics: delivery.NewMetrics(s.Registry),
		Recorder: s.Recorder, Log: s.Log, Clock: s.Clock, Archive: archive,
	}
	if s.flags.StoreFlags.Store != "" {
		store, err := s.flags.Open()
		if err != nil {
			return err
		}
		c.Store = store
	}
	return c.Run(ctx, ready)
}

// archiveFetcherFor returns a function that fetches archives from one host only. Without that bound, a user who
// can write the status of a source could make this process call any address in the cluster. An empty host turns
// sources of Flux off. Errors that another attempt may mend are returned as they are; those that only a change of
// the source mends are a [requester.FailedError].
func archiveFetcherFor(host string) (func(ctx context.Context, address, digest, folder string) ([]byte, error), error) {
	if host == "" {
		return func(context.Context, string, string, string) ([]byte, error) {
			return nil, errors.New("sources of Flux are off: --flux-source-controller is empty")
		}, nil
	}
	guard, err := netguard.New(netguard.Options{Allow: []string{host}})
	if err != nil {
		return nil, fmt.Errorf("--flux-source-controller: %w", err)
	}
	fail := func(err *resolve.Error) ([]byte, error) {
		return nil, &requester.FailedError{Reason: v1alpha1.ReasonResolutionFailed, Exact: string(err.Reason), Message: err.Error()}
	}
	return func(ctx context.Context, address, digest, folder string) ([]byte, error) {
		u, err := url.Parse(address)
		if err != nil {
			return nil, errors.New("the address of the artifact cannot be read")
		}
		name := strings.TrimSuffix(u.Hostname(), ".") // Flux writes the dot of the root
		if port := u.Port(); port != "" {
			name = net.JoinHostPort(name, port)
		}
		u.Host = name
		// The status of a source is writable for its owner, who must not choose where this process connects to.
		if u.Host != host {
			return fail(resolve.Errorf(resolve.ReasonForbidden, "the artifact is at %s; only %s is allowed (--flux-source-controller)", u.Host, host))
		}
		answer, failure := guard.Get(ctx, netguard.Fetch{URL: u.String(), MaxBytes: maxArchive, Plain: true})
		if failure != nil && failure.Reason != resolve.ReasonTooLarge {
			return nil, failure // Flux may just have replaced the artifact by a newer one
		}
		if failure != nil {
			return fail(failure)
		}
		sum := sha256.Sum256(answer.Body)
		if got := "sha256:" + hex.EncodeToString(sum[:]); got != digest {
			return nil, fmt.Errorf("the artifact has the digest %s, want %s", got, digest)
		}
		data, err := resolvers.Folder(answer.Body, folder, maxArchive)
		if refused, ok := errors.AsType[*resolve.Error](err); ok {
			return fail(refused)
		}
		return data, err
	}, nil
}

// featureWebhookFlags are those of the roles features and feature-webhook.
type featureWebhookFlags struct {
	listen string
	url    string
	hosts  []string
	// usage is how often the role features counts; 0: never.
	usage time.Duration
}

// addTo adds the flags of both roles about features, all with the prefix feature-.
func (f *featureWebhookFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "feature-webhook-listen", ":9444", "address of the admission webhook, in the role feature-webhook")
	flags.StringVar(&f.url, "feature-webhook-url", "", "address of the webhook for the API server, as https://HOST:PORT; default: the Service "+features.Service)
	flags.DurationVar(&f.usage, "feature-usage-interval", features.DefaultUsageInterval, "for the role features, how often to count the stored objects that use features; 0: never")
	flags.StringSliceVar(&f.hosts, "feature-webhook-host", nil, "additional DNS name or IP address in the webhook's certificate, if the API server does not call a Service")
}

// featureRequests is how many requests of up to 8 MB are judged at once, and have room in memory.
const featureRequests = 64

// featureCluster is what both roles about features know of the cluster.
func (s *server) featureCluster() features.Cluster {
	return features.Cluster{Config: s.Config, Kube: s.Kube, CRDs: s.crds, Namespace: s.Namespace, Log: s.Log, Clock: s.Clock}
}

// serveFeatures runs the controller of features.
func (s *server) serveFeatures(ctx context.Context, ready func()) error {
	c := &features.Controller{Cluster: s.featureCluster(), Members: s.Members, Metrics: s.featureMetrics(), Recorder: s.Recorder, UsageInterval: s.flags.features.usage}
	c.UsageInterval = cmp.Or(c.UsageInterval, -1) // as the flag has it
	return c.Run(ctx, ready)
}

// serveFeatureWebhook serves the admission webhook for what policies cannot say. It is ready when it knows all
// definitions and settings, and the API server knows its certificate.
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
