//go:build !no_resolver_git

package resolvers

import (
	"context"

	"sluice.dev/resolve"
	resolvegit "sluice.dev/resolve/git"
	"sluice.dev/resolve/netguard"
)

var _ = addBuiltin(func() Entry {
	return Entry{
		Name: "git", ConfigMap: resolvegit.ConfigMapName, Flag: "enable-git-resolver", Local: true,
		Wide: []string{netguard.KeyChosen, resolvegit.KeyPlain},
		Spec: new(resolvegit.Resolver).Spec,
		New: func(ctx context.Context, e Env) (resolve.Resolver, error) {
			return resolvegit.New(ctx, resolvegit.Options{
				Dir: e.Cache, Network: e.Network, Clock: e.Clock, Policies: e.Policies, ProcessBytes: e.ProcessMemory, CacheFull: e.CacheFull,
			})
		},
	}
})
