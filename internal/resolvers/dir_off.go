//go:build no_resolver_dir

package resolvers

func dir() []Entry { return nil }
