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
		Spec: bundle.New(bundle.Options{}).Spec,
		New: func(_ context.Context, e Env) (resolve.Resolver, error) {
			return bundle.New(bundle.Options{Network: e.Network, Accounts: e.Accounts, Policies: e.Policies, Clock: e.Clock}), nil
		},
	}
})
