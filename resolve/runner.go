package resolve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/ptr"
)

// A query passes these steps: its parameters are checked, the resolver names its scope and host, a result comes from the cache or a
// flight (flight.go), and the content is judged. Only the step of the flight can take long, and only it is shared.

// Query is a client's request to a [Runner], as it was written.
type Query struct {
	// Resolver is a name or an alias.
	Resolver string
	// Namespace, Name, UID, URL, Identity and Secrets are those of [Request].
	Namespace, Name, UID string
	URL                  string
	Identity             string
	Secrets              Secrets
	// Params are the parameters as the client gave them.
	Params []Given
	// NotBefore: the remote must be asked at this time or later; a future time stands for now. Zero leaves the decision to the
	// parameter cache: never asks when the fetch begins, and otherwise an answer serves for as long as the resolver allows.
	NotBefore time.Time
}

// Limits bound concurrent work. 0 stands for the default.
type Limits struct {
	// Concurrent bounds the fetches of one resolver that run at once. Spare of these places are for tenants that run less than a
	// quarter of PerTenant. PerTenant bounds the fetches of one tenant, PerHost those from one host. 0 stands for the value of the
	// configuration, also for Spare if Concurrent is 0.
	Concurrent, Spare, PerTenant, PerHost int
	// Queued bounds the waiting fetches of one tenant (20,000). More fail at once with a transient error.
	Queued int
	// Content bounds the content of a resource, in bytes ([DefaultMaxBytes]).
	Content int64
}

// Options are the options of a runner. Resolvers is required.
type Options struct {
	Resolvers *Registry
	// Clock is the clock; nil stands for [SystemClock].
	Clock    Clock
	Observer Observer
	Limits   Limits
	// Cache bounds the cache; nil stands for [DefaultCacheLimits].
	Cache *CacheLimits
	// Memory bounds the bytes of fetches and of their results, until the results are released ([Runner.Hold]); nil bounds nothing.
	Memory *Memory
	// Verify judges a resource for one request, whether it was fetched or cached; nil accepts all. Its error should have the reason
	// [ReasonVerification].
	Verify func(ctx context.Context, resolver string, r *Request, res *Resource) error
	// Epoch identifies the state that Verify and the resolvers depend on in addition to their configuration. Results that were
	// cached under another epoch are not used. Nil stands for an epoch that never changes.
	Epoch func() string
	// Defaults are values for keys that the ConfigMap does not set, by the name of the resolver and then by key. They take
	// precedence over the defaults that the resolver declares. A wrong value of such a key closes; see [Closes]. A wrong default is an
	// error of [NewRunner].
	Defaults map[string]map[string]string
	// Random returns numbers from 0 up to 1 for the jitter of retries; nil stands for math/rand.
	Random func() float64
}

// Runner runs resolvers. It checks parameters, shares, caches, limits and retries fetches, and checks their results. It is safe for
// concurrent use.
type Runner struct {
	opts  Options
	cache *cache

	calls sync.WaitGroup // of resolvers

	mu      sync.Mutex
	configs map[string]*configured
	// parsing serialises the parsing of large contents.
	parsing chan struct{}
	flights map[string]*flight
	queues  map[string]*queue // by the name of the resolver
}

// configured is a resolver with its configuration; it does not change.
type configured struct {
	Resolver

	spec       Spec
	config     Config
	common     common
	generation int
	// good are the values of the ConfigMap that are in force. closed are the keys whose lack of a value stops resolution.
	good   map[string]string
	closed []string
}

// NewRunner returns a runner. All resolvers have their default configuration until [Runner.Configure].
func NewRunner(o Options) (*Runner, error) {
	if o.Resolvers == nil {
		return nil, errors.New("a runner needs resolvers")
	}
	o.Clock = cmp.Or(o.Clock, SystemClock())
	if o.Epoch == nil {
		o.Epoch = func() string { return "" }
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	limits := ptr.Deref(o.Cache, DefaultCacheLimits())
	o.Observer = o.Observer.withDefaults()
	o.Limits.Queued, o.Limits.Content = cmp.Or(o.Limits.Queued, 20_000), cmp.Or(o.Limits.Content, DefaultMaxBytes)
	r := &Runner{
		opts: o, cache: newCache(o.Clock, limits), parsing: make(chan struct{}, 1),
		configs: map[string]*configured{}, flights: map[string]*flight{}, queues: map[string]*queue{},
	}
	for _, name := range o.Resolvers.Names() {
		err := r.checkDefaults(name)
		if err == nil {
			err = r.Configure(name, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// checkDefaults refuses a wrong value in [Options.Defaults], which no ConfigMap would show.
func (r *Runner) checkDefaults(name string) error {
	res, err := r.opts.Resolvers.Get(name)
	if err != nil {
		return err
	}
	spec := res.Spec()
	for _, k := range spec.Keys() {
		value, ok := r.opts.Defaults[spec.Name][k.Name]
		if !ok || k.Check == nil {
			continue
		}
		if err := k.Check(value); err != nil {
			return fmt.Errorf("resolver %s: the default of %s: %w", spec.Name, k.Name, err)
		}
	}
	return nil
}

// Configure passes the data of its ConfigMap to a resolver; nil if there is none. Good values take effect in any case. The error lists
// everything that is wrong (see [Problems]), and the value that is used instead; see [Spec.ReadConfig]. While a key has no value,
// requests fail with [ReasonForbidden]. A change of the configuration invalidates cached results, and prevents others from joining
// running fetches.
func (r *Runner) Configure(name string, data map[string]string) error {
	res, err := r.opts.Resolvers.Get(name)
	if err != nil {
		return err
	}
	spec := res.Spec()
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.configs[spec.Name]
	var good map[string]string
	if before != nil {
		good = before.good
	}
	keys := spec.Keys()
	for i, k := range keys {
		if value, ok := r.opts.Defaults[spec.Name][k.Name]; ok {
			// It may allow more than the default that the resolver declares.
			keys[i].Default, keys[i].Wrong = value, Closes
		}
	}
	read := spec.readKeys(keys, data, good)
	config := read.Config
	next := &configured{Resolver: res, spec: spec, config: config, common: readCommon(config), good: read.Good, closed: read.Closed}
	if before != nil {
		next.generation = before.generation
		if !maps.Equal(before.config, config) {
			next.generation++
		}
	}
	r.configs[spec.Name] = next
	l := r.opts.Limits
	if l.Concurrent == 0 {
		l.Concurrent, l.Spare = next.common.fetches, min(next.common.spare, next.common.fetches/2)
		// A fetch with a place must not wait for memory that hanging fetches hold.
		// The spare places shrink in proportion, and at least one stays while two fetches fit.
		if fit := r.opts.Memory.howManyFit(spec.memoryFor(l.Content)); fit < l.Concurrent {
			l.Concurrent, l.Spare = fit, max(min(fit/2, 1), l.Spare*fit/l.Concurrent)
		}
	}
	l.PerTenant, l.PerHost = cmp.Or(l.PerTenant, next.common.perTenant), cmp.Or(l.PerHost, next.common.perHost)
	if q := r.queues[spec.Name]; q != nil {
		q.setLimits(l)
	} else {
		r.queues[spec.Name] = newQueue(l)
	}
	return read.Err()
}

// Config returns the current configuration of a resolver; nil if there is no such resolver.
func (r *Runner) Config(name string) Config {
	c, err := r.configuredResolver(name)
	if err != nil {
		return nil
	}
	return maps.Clone(c.config)
}

// LimitCache changes the limits of the cache.
func (r *Runner) LimitCache(l CacheLimits) {
	for _, name := range r.cache.setLimits(l) {
		r.opts.Observer.Cache(name, CacheEvicted)
	}
}

// Wait returns when no resolver is working any more. Call it after the last Resolve has returned: resolvers that were cancelled may
// take a while to notice.
func (r *Runner) Wait() { r.calls.Wait() }

// configuredResolver returns a resolver by its name or an alias.
func (r *Runner) configuredResolver(name string) (*configured, error) {
	if _, err := r.opts.Resolvers.Get(name); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.configs[r.opts.Resolvers.canonical[name]], nil
}

// Resolve fetches the resource of a query. It returns when there is a result, when ctx is done or when the query's deadline has
// passed. Errors are of type [*Error]. The content of the resource may be shared, so the caller must not change it.
func (r *Runner) Resolve(ctx context.Context, q *Query) (*Resource, error) {
	out, held, err := r.Hold(ctx, q)
	held.Release()
	return out, err
}

// Hold is Resolve for callers that keep the content for a while: its memory stays reserved until they release the reservation.
func (r *Runner) Hold(ctx context.Context, q *Query) (*Resource, *Reservation, error) {
	began := r.opts.Clock.Now()
	// An unknown name is text from a client, which must not become a label of metrics.
	name := r.opts.Resolvers.canonical[q.Resolver]
	r.opts.Observer.Started(name, q.Namespace)
	out, held, err := r.resolveQuery(ctx, q)
	var failure *Error
	var reason Reason
	if err != nil {
		failure = cleanError(err)
		reason = failure.Reason
	}
	r.opts.Observer.Finished(name, q.Namespace, reason, r.opts.Clock.Now().Sub(began))
	if failure != nil {
		return nil, nil, failure
	}
	return out, held, nil
}

// Validate checks a query without fetching: the name of the resolver and the parameters. It returns the request that the resolver
// would get.
func (r *Runner) Validate(q *Query) (*Request, error) {
	c, err := r.configuredResolver(q.Resolver)
	if err != nil {
		return nil, err
	}
	req, _, err := r.newRequest(c, q)
	return req, err
}

// newRequest checks a query by the specification and the configuration, and returns the request for the resolver. The request has its
// own copy of the configuration. The error has the reason [ReasonForbidden] while a key that closes has no value, and [ReasonInvalid]
// for wrong parameters.
func (r *Runner) newRequest(c *configured, q *Query) (*Request, CacheMode, error) {
	if len(c.closed) > 0 {
		return nil, "", Errorf(ReasonForbidden, "the resolver %s does nothing until the ConfigMap %s is right: its %s says what is allowed and cannot be read; an event at the ConfigMap says more",
			c.spec.Name, c.spec.ConfigMap, strings.Join(c.closed, ", "))
	}
	params, mode, warnings, err := c.spec.parseParams(q.Params, c.config)
	if err != nil {
		return nil, "", err
	}
	req := &Request{
		Namespace: q.Namespace, Name: q.Name, UID: q.UID, Params: params, URL: q.URL, Config: maps.Clone(c.config),
		Identity: q.Identity, Secrets: q.Secrets, MaxBytes: r.opts.Limits.Content, warnings: warnings,
	}
	if c.spec.Validate != nil {
		var p problems
		if err := r.callProtected(c, func() { p = c.spec.Validate(req) }); err != nil {
			return nil, "", err
		}
		if err := p.asError(); err != nil {
			return nil, "", err
		}
	}
	return req, mode, nil
}

// callProtected calls a function of a resolver and turns a panic into an error.
func (r *Runner) callProtected(c *configured, f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = r.panicError(c, v)
		}
	}()
	f()
	return nil
}

// panicError is the error for a resolver that panicked. Users do not see the value, because it may hold anything.
func (r *Runner) panicError(c *configured, value any) error {
	r.opts.Observer.Panicked(c.spec.Name, value, debug.Stack())
	return Errorf(ReasonFailed, "the resolver %s broke down; this is a defect in it, its log has more", c.spec.Name)
}

// resolveQuery resolves without metrics. The kinds and signatures of the content are judged for each request, after the cache: the
// rules may have changed since the content was stored, and Verify may depend on the request.
func (r *Runner) resolveQuery(ctx context.Context, q *Query) (*Resource, *Reservation, error) {
	c, err := r.configuredResolver(q.Resolver)
	if err != nil {
		return nil, nil, err
	}
	req, mode, err := r.newRequest(c, q)
	if err != nil {
		return nil, nil, err
	}
	var scope, host string
	if err := r.callProtected(c, func() {
		if c.spec.Scope != nil {
			scope = c.spec.Scope(req)
		}
		if c.spec.Host != nil {
			host = c.spec.Host(req)
		}
	}); err != nil {
		return nil, nil, err
	}
	// An empty scope would let all requests share, which only PublicScope may.
	scope = cmp.Or(scope, NamespaceScope(req))
	w := &waiter{
		notBefore: slices.MinFunc([]time.Time{q.NotBefore, r.opts.Clock.Now()}, time.Time.Compare), anew: mode == CacheNever,
		configured: c, request: req, mode: mode, public: scope == PublicScope, key: keyOf(c, r.opts.Epoch(), scope, req), host: host, tenant: q.Namespace,
	}
	res, held, err := r.obtainResource(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	if err := r.checkKinds(ctx, c.config, res.Data); err != nil {
		held.Release()
		return nil, nil, err
	}
	if r.opts.Verify != nil {
		if err := r.opts.Verify(ctx, c.spec.Name, req, res); err != nil {
			held.Release()
			return nil, nil, err
		}
	}
	return req.withWarnings(res), held, nil
}

// keyOf returns equal keys for requests that may share a fetch.
func keyOf(c *configured, epoch, scope string, r *Request) string {
	// Marshal sorts the keys of maps. Strings, and maps of strings, always marshal.
	text, _ := json.Marshal([]any{epoch, scope, c.spec.Name, c.generation, r.URL, r.Params}) //nolint:errchkjson // see above
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
