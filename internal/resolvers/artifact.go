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
		New: func(_ context.Context, e Env) (resolve.Resolver, error) {
			return bundle.NewArtifact(bundle.Options{Network: e.Network, Policies: e.Policies, Clock: e.Clock}), nil
		},
	}
})
