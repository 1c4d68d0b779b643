//go:build no_resolver_git

package resolvers

func git() []Entry { return nil }
