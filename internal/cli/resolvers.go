package cli

import (
	"context"
	"maps"
	"slices"

	"sluice.dev/internal/controller/resolution"
	"sluice.dev/resolve"
	"sluice.dev/resolve/httpfile"
	"sluice.dev/resolve/hub"
	"sluice.dev/resolve/netguard"
)

// resolverRoles is the table of resolvers.
func resolverRoles() []resolverRole {
	return []resolverRole{
		{name: "http", configMap: "http-resolver-config", make: framed(func() resolve.Resolver { return httpfile.New(netguard.Options{}) })},
		{name: "hub", configMap: "hubresolver-config", make: framed(func() resolve.Resolver { return hub.New(netguard.Options{}) })},
	}
}

// framed runs a resolver in the framework of package resolve.
func framed(resolver func() resolve.Resolver) func(*process) (resolution.Resolver, func(map[string]string) error, error) {
	return func(p *process) (resolution.Resolver, func(map[string]string) error, error) {
		r := resolver()
		registry, err := resolve.NewRegistry(r)
		if err != nil {
			return nil, nil, err
		}
		runner, err := resolve.NewRunner(resolve.Options{Resolvers: registry, Limits: resolve.Limits{Content: int64(p.flags.maxData)}})
		if err != nil {
			return nil, nil, err
		}
		name := r.Spec().Name
		return framework{runner, name}, func(data map[string]string) error { return runner.Configure(name, data) }, nil
	}
}

// framework is a runner as the adapter wants it.
type framework struct {
	runner *resolve.Runner
	name   string
}

// Resolve implements [resolution.Resolver].
func (f framework) Resolve(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	q := &resolve.Query{
		Resolver: f.name, Namespace: r.Namespace, Name: r.Name, UID: r.UID, URL: r.URL, Identity: r.Identity, Secrets: r.Secrets,
	}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		q.Params = append(q.Params, resolve.Given{Name: name, Value: r.Params[name]})
	}
	return f.runner.Resolve(ctx, q)
}
