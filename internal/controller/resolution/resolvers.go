package resolution

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
)

// All resolvers of a process share the framework of package resolve, and some ConfigMaps: which are switched off, what must be
// signed, how large the cache is. This file reads those, and connects the framework to the adapter.

// Names of ConfigMaps that all resolvers share. The first is Tekton's.
const (
	FlagsConfigMap        = "resolvers-feature-flags"
	VerificationConfigMap = "resolver-verification-config"
)

// keyCheckAccess is the key of a resolver's ConfigMap that makes it ask on whose behalf a request is made.
const keyCheckAccess = "check-access"

// Resolvers are the resolvers of a process, in the framework of package resolve, with the ConfigMaps that they share.
type Resolvers struct {
	Runner *resolve.Runner
	Specs  []resolve.Spec
	// MaxCache bounds the cache whatever its ConfigMap says, in bytes; 0 does not.
	MaxCache int64

	// flags are the keys that switch resolvers off, by the name of the resolver.
	flags    map[string]string
	free     func() error
	disabled atomic.Pointer[map[string]bool] // by the name of the resolver
	policies atomic.Pointer[verify.Policies]
	// unverified: there are policies that cannot be read, and no last good ones.
	unverified atomic.Bool
}

// Make makes the resolvers of a process. policies are those in force, nil for none. free, which may be nil, releases what the
// resolvers hold, once none of them works any more; it is called after an error as well.
type Make func(ctx context.Context, policies func() *verify.Policies) (list []resolve.Resolver, free func() error, err error)

// NewResolvers makes the resolvers. flags has the keys in [FlagsConfigMap] that switch them off, by the name of the resolver.
func NewResolvers(ctx context.Context, build Make, flags map[string]string, o resolve.Options) (*Resolvers, error) {
	r := &Resolvers{flags: flags}
	r.disabled.Store(&map[string]bool{})
	list, free, err := build(ctx, r.policies.Load)
	r.free = free
	var registry *resolve.Registry
	if err == nil {
		registry, err = resolve.NewRegistry(list...)
	}
	if err == nil {
		for _, resolver := range list {
			r.Specs = append(r.Specs, resolver.Spec())
		}
		o.Resolvers, o.Verify = registry, r.verifyByPolicies
		o.Epoch = func() string { return r.policies.Load().Digest() }
		r.Runner, err = resolve.NewRunner(o)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Policies are those in force; nil for none.
func (r *Resolvers) Policies() *verify.Policies { return r.policies.Load() }

// Close releases what the resolvers hold, once none of them works any more. Nobody may wait for a result.
func (r *Resolvers) Close() error {
	if r.Runner != nil {
		r.Runner.Wait()
	}
	if r.free == nil {
		return nil
	}
	return r.free()
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
		FlagsConfigMap: r.configureFlags,
		VerificationConfigMap: func(data map[string]string) error {
			// After a mistake the last good policies hold. Without any, nothing takes their place.
			err := r.ConfigureVerification(ctx, data, secrets)
			r.unverified.Store(err != nil && r.policies.Load() == nil)
			return err
		},
	}
	for _, s := range r.Specs {
		if s.ConfigMap != "" {
			out[s.ConfigMap] = func(data map[string]string) error { return r.Runner.Configure(s.Name, data) }
		}
	}
	return out
}

// configureFlags reads which resolvers are switched off, as Tekton has it. Other keys are Tekton's own. In place of a wrong value the
// last one holds; without one the resolver is off.
func (r *Resolvers) configureFlags(data map[string]string) error {
	off := map[string]bool{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(r.flags)) {
		flag := r.flags[name]
		v := strings.TrimSpace(data[flag])
		if v == "" {
			continue
		}
		on, err := strconv.ParseBool(v)
		if err != nil {
			was, known := (*r.disabled.Load())[name]
			on = known && !was
			errs = append(errs, fmt.Errorf("key %s: %w; the resolver is %s", flag, resolve.CheckBool(v), map[bool]string{true: "on", false: "off"}[on]))
		}
		off[name] = !on
	}
	r.disabled.Store(&off)
	return errors.Join(errs...)
}

// ConfigureVerification reads the operator's policies: policies is a YAML stream of VerificationPolicy, no-match says what
// happens to content that no policy matches, and trusted-root is Sigstore's trusted_root.json for the authorities without keys.
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

// AnnotationUnverified says in the status of a request what a policy that only warns has found.
const AnnotationUnverified = "sluice.dev/verification-warning"

// verifyByPolicies judges a result by the operator's policies.
func (r *Resolvers) verifyByPolicies(ctx context.Context, _ string, _ *resolve.Request, res *resolve.Resource) error {
	warnings, err := verify.Verify(ctx, r.policies.Load(), res)
	if len(warnings) > 0 {
		// The resource is this request's own; what is cached stays as it is.
		res.Annotations = maps.Clone(res.Annotations)
		if res.Annotations == nil {
			res.Annotations = map[string]string{}
		}
		res.Annotations[AnnotationUnverified] = strings.Join(warnings, "; ")
	}
	return err
}

// Adapters returns the resolvers by name, in the form that the adapter takes.
func (r *Resolvers) Adapters() map[string]Resolver {
	out := map[string]Resolver{}
	for _, s := range r.Specs {
		out[s.Name] = framed{r, s.Name}
	}
	return out
}

// framed is one of the resolvers.
type framed struct {
	*Resolvers

	name string
}

// Hold implements [Resolver].
func (f framed) Hold(ctx context.Context, r *resolve.Request) (*resolve.Resource, *resolve.Reservation, error) {
	if f.unverified.Load() {
		return nil, nil, resolve.Errorf(resolve.ReasonForbidden, "the policies in the ConfigMap %s have mistakes, and the resolver %s knows no earlier ones; it does nothing until they are right; an event at the ConfigMap says what is wrong", VerificationConfigMap, f.name)
	}
	if (*f.disabled.Load())[f.name] {
		return nil, nil, resolve.Errorf(resolve.ReasonForbidden, "the resolver %s is switched off in the ConfigMap %s", f.name, FlagsConfigMap)
	}
	q := &resolve.Query{
		Resolver: f.name, Namespace: r.Namespace, Name: r.Name, UID: r.UID, URL: r.URL, Identity: r.Identity, Secrets: r.Secrets, NotBefore: r.NotBefore,
	}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		q.Params = append(q.Params, resolve.Given{Name: name, Value: r.Params[name]})
	}
	return f.Runner.Hold(ctx, q)
}

// Identity finds the user of a request, for resolvers whose configuration asks for it.
func (r *Resolvers) Identity(owner Owner) func(context.Context, *v1beta1.ResolutionRequest, string) (string, error) {
	return func(ctx context.Context, request *v1beta1.ResolutionRequest, resolver string) (string, error) {
		// Whatever strconv takes for true is true to the resolver.
		if checks, err := strconv.ParseBool(r.Runner.Config(resolver)[keyCheckAccess]); err == nil && checks {
			return owner.Identity(ctx, request)
		}
		return "", nil
	}
}
