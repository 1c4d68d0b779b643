//go:build no_resolver_bundles

package resolvers

import "errors"

// Artifacts lists resolvers of whole artifacts, which command lines have beside those of [Table].
func Artifacts() []Entry { return nil }

// Folder has what unpacks archives, which belongs to the resolver that this build lacks.
func Folder([]byte, string, int64) ([]byte, error) {
	return nil, errors.New("this build cannot unpack archives: it is without the resolver bundles")
}
