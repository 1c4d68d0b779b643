//go:build no_resolver_cluster

package resolvers

func cluster() []Entry { return nil }
