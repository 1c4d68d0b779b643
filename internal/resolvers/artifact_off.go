//go:build no_resolver_bundles

package resolvers

// Artifacts lists resolvers of whole artifacts, which command lines have beside those of [Table].
func Artifacts() []Entry { return nil }
