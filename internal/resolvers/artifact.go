//go:build !no_resolver_bundles

package resolvers

import (
	"context"

	"sluice.dev/resolve"
	"sluice.dev/resolve/bundle"
)

// Artifacts lists resolvers of whole artifacts, which command lines have beside those of [Table].
func Artifacts() []Entry {
	return []Entry{{
		Name: bundle.ArtifactName, Local: true,
		New: func(_ context.Context, e Env) (resolve.Resolver, func() error, error) {
			options := []bundle.Option{bundle.WithNetwork(e.Network), bundle.WithClock(e.Clock)}
			if e.Policies != nil {
				options = append(options, bundle.WithPolicies(e.Policies))
			}
			r := bundle.NewArtifact(options...)
			return r, r.Close, nil
		},
	}}
}

// Folder is [bundle.Folder], for archives that no resolver has fetched.
func Folder(archive []byte, folder string, maxSize int64) ([]byte, error) {
	return bundle.Folder(archive, folder, maxSize)
}
