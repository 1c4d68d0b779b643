//go:build no_resolver_http

package resolvers

func http() []Entry { return nil }
