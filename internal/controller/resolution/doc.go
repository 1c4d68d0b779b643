// Package resolution runs resolvers in a cluster. It watches ResolutionRequest objects, calls resolvers, and writes the results. It
// also manages the life of requests: time-outs, time to live, conversion between versions.
//
// It promises to work on a request exactly while the request exists, is unfinished and has time left. It writes the result of a
// resolver in one status patch, under the condition that the object is the one that it read. Two replicas may work on the same
// request for a moment; that does no harm. The package does not fetch: package resolve and the resolvers do.
package resolution
