//go:build !no_resolver_hub

package resolvers

import (
	"context"

	"sluice.dev/resolve"
	resolvehub "sluice.dev/resolve/hub"
	"sluice.dev/resolve/netguard"
)

func hub() []Entry {
	return []Entry{{
		Name: "hub", ConfigMap: "hubresolver-config", Flag: "enable-hub-resolver", Local: true,
		Wide: []string{netguard.KeyChosen, resolvehub.KeyPlain},
		Spec: resolvehub.New(netguard.Options{}).Spec,
		New: func(_ context.Context, e Env) (resolve.Resolver, func() error, error) {
			r := resolvehub.New(e.Network)
			return r, closer(r.Close), nil
		},
	}}
}
