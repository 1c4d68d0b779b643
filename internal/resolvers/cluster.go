//go:build !no_resolver_cluster

package resolvers

import (
	"context"

	"sluice.dev/resolve"
	resolvecluster "sluice.dev/resolve/cluster"
)

var _ = addBuiltin(func() Entry {
	return Entry{
		Name: "cluster", ConfigMap: "cluster-resolver-config", Flag: "enable-cluster-resolver",
		Spec: resolvecluster.New(nil).Spec,
		New: func(_ context.Context, e Env) (resolve.Resolver, error) {
			if e.Cluster == nil {
				return nil, resolve.Errorf(resolve.ReasonFailed, "the resolver cluster needs a cluster")
			}
			client, err := resolvecluster.NewClient(e.Cluster, e.Clock)
			if err != nil {
				return nil, err
			}
			return resolvecluster.New(client), nil
		},
	}
})
