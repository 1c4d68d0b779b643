//go:build !no_resolver_hub

package resolvers

import (
	"context"

	"sluice.dev/resolve"
	resolvehub "sluice.dev/resolve/hub"
	"sluice.dev/resolve/netguard"
)

var _ = addBuiltin(func() Entry {
	return Entry{
		Name: "hub", ConfigMap: "hubresolver-config", Flag: "enable-hub-resolver", Local: true,
		Wide: []string{netguard.KeyChosen, resolvehub.KeyPlain},
		Spec: (&resolvehub.Resolver{}).Spec,
		New: func(_ context.Context, e Env) (resolve.Resolver, error) {
			o := resolvehub.Options{Network: e.Network}
			if e.Getenv != nil {
				o.ArtifactURL, o.TektonURL = e.Getenv(resolvehub.EnvArtifactURL), e.Getenv(resolvehub.EnvTektonURL)
			}
			return resolvehub.New(o)
		},
	}
})
