//go:build !no_resolver_http

package resolvers

import (
	"context"

	"sluice.dev/resolve"
	"sluice.dev/resolve/httpfile"
	"sluice.dev/resolve/netguard"
)

var _ = addBuiltin(func() Entry {
	return Entry{
		Name: "http", ConfigMap: "http-resolver-config", Flag: "enable-http-resolver", Local: true,
		Wide: []string{netguard.KeyPrivate, httpfile.KeyPlain},
		Spec: httpfile.New(netguard.Options{}).Spec,
		New:  func(_ context.Context, e Env) (resolve.Resolver, error) { return httpfile.New(e.Network), nil },
	}
})
