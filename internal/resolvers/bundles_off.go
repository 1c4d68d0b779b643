//go:build no_resolver_bundles

package resolvers

func bundles() []Entry { return nil }
