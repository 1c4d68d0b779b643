//go:build !no_resolver_dir

package resolvers

import (
	"context"

	"sluice.dev/resolve"
	resolvedir "sluice.dev/resolve/dir"
)

var _ = addBuiltin(func() Entry {
	return Entry{
		Name: "dir", Local: true,
		Spec: resolvedir.New(map[string]string{resolvedir.DefaultDirectory: "."}).Spec,
		New:  func(_ context.Context, e Env) (resolve.Resolver, error) { return resolvedir.New(e.Roots), nil },
	}
})
