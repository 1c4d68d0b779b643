//go:build !no_resolver_git

package resolvers

import (
	"context"

	"sluice.dev/resolve"
	resolvegit "sluice.dev/resolve/git"
)

func git() []Entry {
	return []Entry{{
		Name: "git", ConfigMap: resolvegit.ConfigMapName, Flag: "enable-git-resolver", Local: true,
		Spec: new(resolvegit.Resolver).Spec,
		New: func(ctx context.Context, e Env) (resolve.Resolver, func() error, error) {
			r, err := resolvegit.New(ctx, resolvegit.Options{Dir: e.Cache, Network: e.Network, Clock: e.Clock})
			if err != nil {
				return nil, nil, err
			}
			return r, r.Close, nil
		},
	}}
}
