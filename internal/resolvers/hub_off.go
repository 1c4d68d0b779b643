//go:build no_resolver_hub

package resolvers

func hub() []Entry { return nil }
