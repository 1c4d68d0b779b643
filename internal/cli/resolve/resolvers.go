package resolve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http/httpproxy"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
	"sluice.dev/resolve/verify"
)

// Names of ConfigMaps that all resolvers share. The first is Tekton's.
const (
	flagsConfigMap        = "resolvers-feature-flags"
	verificationConfigMap = "resolver-verification-config"
)

// Resolvers are the resolvers of a process, in the framework of package resolve.
type Resolvers struct {
	entries []resolvers.Entry
	Runner  *resolve.Runner
	Specs   []resolve.Spec
	close   []func() error
	// MaxCache bounds the cache whatever its ConfigMap says, in bytes; 0 does not.
	MaxCache int64

	disabled atomic.Pointer[map[string]bool] // by the name of the resolver
	policies atomic.Pointer[verify.Policies]
	// unverified: there are policies that cannot be read, and no last good ones.
	unverified atomic.Bool
}

// NewResolvers makes the resolvers of the entries.
func NewResolvers(ctx context.Context, entries []resolvers.Entry, lent resolvers.Env, o resolve.Options) (*Resolvers, error) {
	r := &Resolvers{entries: entries}
	r.disabled.Store(&map[string]bool{})
	lent.Policies = r.policies.Load
	var list []resolve.Resolver
	for _, entry := range entries {
		resolver, free, err := entry.New(ctx, lent)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("resolver %s: %w", entry.Name, err), r.Close())
		}
		if free != nil {
			r.close = append(r.close, free)
		}
		list = append(list, resolver)
		r.Specs = append(r.Specs, resolver.Spec())
	}
	registry, err := resolve.NewRegistry(list...)
	if err == nil {
		o.Resolvers, o.Verify = registry, r.verifyByPolicies
		o.Epoch = func() string { return r.policies.Load().Digest() }
		r.Runner, err = resolve.NewRunner(o)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close releases what the resolvers hold, once none of them works any more. Nobody may wait for a result.
func (r *Resolvers) Close() error {
	if r.Runner != nil {
		r.Runner.Wait()
	}
	var errs []error
	for _, free := range slices.Backward(r.close) {
		errs = append(errs, free())
	}
	return errors.Join(errs...)
}

// ConfigMaps are those that the resolvers read, with what takes their data as long as ctx lives; nil data stands for a
// missing one.
func (r *Resolvers) ConfigMaps(ctx context.Context, secrets resolve.Secrets) map[string]func(data map[string]string) error {
	var limits map[string]string
	out := map[string]func(data map[string]string) error{
		resolve.CacheConfigMap: func(data map[string]string) error {
			l, read := resolve.ReadCacheLimits(data, limits)
			limits = read.Good
			if r.MaxCache > 0 {
				l.Bytes = min(l.Bytes, r.MaxCache)
			}
			r.Runner.LimitCache(l)
			return read.Err()
		},
		flagsConfigMap: r.configureFlags,
		verificationConfigMap: func(data map[string]string) error {
			// After a mistake the last good policies hold. Without any, nothing takes their place.
			err := r.ConfigureVerification(ctx, data, secrets)
			r.unverified.Store(err != nil && r.policies.Load() == nil)
			return err
		},
	}
	for _, e := range r.entries {
		if e.ConfigMap != "" {
			out[e.ConfigMap] = func(data map[string]string) error { return r.Runner.Configure(e.Name, data) }
		}
	}
	return out
}

// configureFlags reads which resolvers are switched off, as Tekton has it. Other keys are Tekton's own. In place of a wrong value the
// last one holds; without one the resolver is off.
func (r *Resolvers) configureFlags(data map[string]string) error {
	off := map[string]bool{}
	var errs []error
	for _, e := range r.entries {
		v := strings.TrimSpace(data[e.Flag])
		if e.Flag == "" || v == "" {
			continue
		}
		on, err := strconv.ParseBool(v)
		if err != nil {
			was, known := (*r.disabled.Load())[e.Name]
			on = known && !was
			errs = append(errs, fmt.Errorf("key %s: %w; the resolver is %s", e.Flag, resolve.CheckBool(v), map[bool]string{true: "on", false: "off"}[on]))
		}
		off[e.Name] = !on
	}
	r.disabled.Store(&off)
	return errors.Join(errs...)
}

// ConfigureVerification reads the operator's policies: policies is a YAML stream of VerificationPolicy, no-match says what
// becomes of what none of them speaks of, and trusted-root is Sigstore's trusted_root.json for the authorities without keys.
func (r *Resolvers) ConfigureVerification(ctx context.Context, data map[string]string, secrets resolve.Secrets) error {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if !slices.Contains([]string{"policies", "no-match", "trusted-root", "_example"}, key) {
			return fmt.Errorf("unknown key %q; allowed are policies, no-match and trusted-root", key)
		}
	}
	var list []verify.Policy
	if text := data["policies"]; strings.TrimSpace(text) != "" {
		var err error
		if list, err = verify.Parse(ctx, []byte(text), secrets); err != nil {
			return fmt.Errorf("key policies: %w", err)
		}
	}
	noMatch := verify.NoMatch(strings.TrimSpace(data["no-match"]))
	if len(list) == 0 && noMatch == "" {
		r.policies.Store(nil)
		return nil
	}
	p, err := verify.New(list, verify.Options{NoMatch: noMatch, TrustedRoot: data["trusted-root"]})
	if err != nil {
		return err
	}
	r.policies.Store(p)
	return nil
}

// annotationUnverified says in the status of a request what a policy that only warns has found.
const annotationUnverified = "sluice.dev/verification-warning"

// verifyByPolicies judges a result by the operator's policies.
func (r *Resolvers) verifyByPolicies(ctx context.Context, _ string, _ *resolve.Request, res *resolve.Resource) error {
	warnings, err := verify.Verify(ctx, r.policies.Load(), res)
	if len(warnings) > 0 {
		// The resource is this request's own; what is cached stays as it is.
		res.Annotations = maps.Clone(res.Annotations)
		if res.Annotations == nil {
			res.Annotations = map[string]string{}
		}
		res.Annotations[annotationUnverified] = strings.Join(warnings, "; ")
	}
	return err
}

// Adapters returns the resolvers by name, in the form that the adapter takes.
func (r *Resolvers) Adapters() map[string]resolution.Resolver {
	out := map[string]resolution.Resolver{}
	for _, e := range r.entries {
		out[e.Name] = framed{r, e}
	}
	return out
}

// framed is one of the resolvers.
type framed struct {
	*Resolvers

	entry resolvers.Entry
}

// Resolve implements [resolution.Resolver].
func (f framed) Resolve(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	res, held, err := f.Hold(ctx, r)
	held.Release()
	return res, err
}

// Hold implements [resolution.Holder].
func (f framed) Hold(ctx context.Context, r *resolve.Request) (*resolve.Resource, *resolve.Reservation, error) {
	if f.unverified.Load() {
		return nil, nil, resolve.Errorf(resolve.ReasonForbidden, "the policies in the ConfigMap %s have mistakes, and the resolver %s knows no earlier ones; it does nothing until they are right; an event at the ConfigMap says what is wrong", verificationConfigMap, f.entry.Name)
	}
	if (*f.disabled.Load())[f.entry.Name] {
		return nil, nil, resolve.Errorf(resolve.ReasonForbidden, "the resolver %s is switched off in the ConfigMap %s", f.entry.Name, flagsConfigMap)
	}
	q := &resolve.Query{
		Resolver: f.entry.Name, Namespace: r.Namespace, Name: r.Name, UID: r.UID, URL: r.URL, Identity: r.Identity, Secrets: r.Secrets, NotBefore: r.NotBefore,
	}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		q.Params = append(q.Params, resolve.Given{Name: name, Value: r.Params[name]})
	}
	return f.Runner.Hold(ctx, q)
}

// Identity finds the user of a request, for resolvers and configurations that ask for it.
func (r *Resolvers) Identity(owner resolution.Owner) func(context.Context, *v1beta1.ResolutionRequest, string) (string, error) {
	return func(ctx context.Context, request *v1beta1.ResolutionRequest, resolver string) (string, error) {
		// Whatever strconv takes for true is true to the resolver.
		if checks, err := strconv.ParseBool(r.Runner.Config(resolver)["check-access"]); resolver == "cluster" && err == nil && checks {
			return owner.Identity(ctx, request)
		}
		return "", nil
	}
}

// Network returns the network rules that a process adds to those in the configuration of its resolvers.
func Network(e *command.Env, clock resolve.Clock) netguard.Options {
	lookup := func(name string) string {
		if v := e.Getenv(name); v != "" {
			return v
		}
		return e.Getenv(strings.ToLower(name))
	}
	o := netguard.Options{Clock: clock}
	proxy := httpproxy.Config{HTTPProxy: lookup("HTTP_PROXY"), HTTPSProxy: lookup("HTTPS_PROXY"), NoProxy: lookup("NO_PROXY")}
	if proxy.HTTPProxy != "" || proxy.HTTPSProxy != "" {
		o.Proxy = &proxy
	}
	return o
}

// CacheFolder returns the folder of the cache, and a function that removes it if it is a temporary one.
func CacheFolder(named string) (string, func() error, error) {
	if named != "" {
		return named, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "sluice-")
	return dir, sync.OnceValue(func() error { return os.RemoveAll(dir) }), err
}

// Roots reads NAME=PATH, or PATH for the directory that is meant where a request names none. The directories have to exist.
func Roots(dirs []string) (map[string]string, error) {
	out := map[string]string{}
	for _, d := range dirs {
		name, path, named := strings.Cut(d, "=")
		if !named {
			name, path = "default", d
		}
		if name == "" || path == "" {
			return nil, fmt.Errorf("--dir %q: want PATH or NAME=PATH", d)
		}
		if out[name] != "" {
			return nil, fmt.Errorf("--dir: the directory %q is given twice", name)
		}
		if info, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("--dir: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("--dir: %s is no directory", path)
		}
		out[name] = path
	}
	return out, nil
}
