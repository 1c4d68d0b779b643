// Package resolution runs resolvers in a cluster: it watches ResolutionRequest objects, has them resolved, writes what
// came of it, and cares for the life of requests: time-outs, time to live, conversion between versions.
//
// It promises that a request is worked on while it exists, is unfinished and has time left, and no longer; that what a
// resolver found is written in one status patch, on the condition that the object is the one that was read; and that
// two replicas which work on the same request, as can happen for a moment, do no harm. It does not fetch: that is the
// work of package resolve and the resolvers.
package resolution
