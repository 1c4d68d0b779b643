//go:build !no_resolver_bundles

package resolvers

import (
	"context"

	"sluice.dev/resolve"
	"sluice.dev/resolve/bundle"
)

var _ = addBuiltin(func() Entry {
	return Entry{
		Name: "bundles", ConfigMap: "bundleresolver-config", Flag: "enable-bundles-resolver", Local: true,
		Wide: []string{bundle.KeyPlainPrivate},
		Spec: bundle.New().Spec,
		New: func(_ context.Context, e Env) (resolve.Resolver, func() error, error) {
			options := []bundle.Option{bundle.WithNetwork(e.Network), bundle.WithClock(e.Clock)}
			if e.Accounts != nil {
				options = append(options, bundle.WithServiceAccounts(e.Accounts))
			}
			if e.Policies != nil {
				options = append(options, bundle.WithPolicies(e.Policies))
			}
			r := bundle.New(options...)
			return r, r.Close, nil
		},
	}
})
