//go:build !no_resolver_bundles

package resolvers

import (
	"context"

	"sluice.dev/resolve"
	"sluice.dev/resolve/bundle"
)

var _ = addBuiltin(func() Entry {
	return Entry{
		Name: bundle.ArtifactName, Local: true, Artifacts: true, Folder: bundle.Folder,
		New: func(_ context.Context, e Env) (resolve.Resolver, func() error, error) {
			options := []bundle.Option{bundle.WithNetwork(e.Network), bundle.WithClock(e.Clock)}
			if e.Policies != nil {
				options = append(options, bundle.WithPolicies(e.Policies))
			}
			r := bundle.NewArtifact(options...)
			return r, r.Close, nil
		},
	}
})
