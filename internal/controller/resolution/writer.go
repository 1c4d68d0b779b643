package resolution

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
)

// A result is written in one patch, which may be more than a megabyte, and has to get through: a resolver has spent seconds on it. So
// a failed write is tried again for as long as the failure may pass. What will not pass is an error at once, for example a content
// that etcd finds too large.

const (
	firstWait = 50 * time.Millisecond
	lastWait  = 5 * time.Second
	// disbelief is the time for which a refusal is not believed: an API server that has just started refuses all users until it has
	// read its roles.
	disbelief = 15 * time.Second

	mergePatch = types.MergePatchType

	// large is the content, in bytes, of which a second write costs more than a read before the first.
	large = 32 << 10

	// acceptMetadata asks for metadata only in answers to writes, because the content was just sent.
	acceptMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

// patchStatus sends a patch of a request's status.
func patchStatus(ctx context.Context, c versioned.Interface, r *v1beta1.ResolutionRequest, p patch) error {
	return c.ResolutionV1beta1().RESTClient().Patch(p.form).Namespace(r.Namespace).Resource(resource).Name(r.Name).
		SubResource("status").Param("fieldManager", "sluice").SetHeader("Accept", acceptMetadata).Body(p.text).Do(ctx).Error()
}

// writer writes a status in one patch, and tries again after temporary failures.
type writer struct {
	client   versioned.Interface
	metrics  *Metrics
	clock    clock.Clock
	resolver string
	// lookup returns the request in a cache, nil if it is gone.
	lookup func() *v1beta1.ResolutionRequest
}

// writeStatus writes the status unless the request has been finished or deleted meanwhile, and reports whether it did. It tries
// for as long as ctx allows and the API server may recover; the error is one that does not pass.
//
// what is the label of the metric. A refusal for want of rights may pass too: an API server that has just started refuses everybody.
func (w writer) writeStatus(ctx context.Context, r *v1beta1.ResolutionRequest, s statusFields, what string) (bool, error) {
	r = w.firstState(ctx, r, len(s.data))
	var refused time.Time
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		if r == nil || r.Status.Finished() || r.DeletionTimestamp != nil {
			return false, nil
		}
		patch, err := patchFor(r, s)
		if err != nil {
			return false, err
		}
		w.metrics.writes.WithLabelValues(what).Inc()
		err = patchStatus(ctx, w.client, r, patch)
		if err == nil || apierrors.IsNotFound(err) {
			return err == nil, nil
		}
		cause := w.passingCause(err, &refused)
		if cause == "" {
			return false, err
		}
		w.metrics.retries.WithLabelValues(w.resolver, cause).Inc()
		if r, err = w.newerState(ctx, r, cause == "conflict", wait); err != nil {
			return false, err
		}
	}
}

// firstState returns the state of a request for the first attempt to write content of that size, nil if the request is gone.
func (w writer) firstState(ctx context.Context, r *v1beta1.ResolutionRequest, size int) *v1beta1.ResolutionRequest {
	// The cache may know a newer version by now.
	if now := w.lookup(); now != nil && now.UID == r.UID {
		r = now
	}
	if size <= large || r.Status.Succeeded() != nil {
		return r
	}
	// Tekton's controller sets the condition Unknown at about this time. After that, its other writes cause no conflict.
	now, err := w.newestState(ctx, r)
	if err != nil {
		return r // the write will tell
	}
	return now
}

// newerState returns the state of a request for the next attempt, nil if it is gone. It waits before it asks the API server, and after
// a conflict only if there is no newer state, because the next attempt would fail in the same way.
func (w writer) newerState(ctx context.Context, r *v1beta1.ResolutionRequest, conflict bool, wait time.Duration) (*v1beta1.ResolutionRequest, error) {
	if conflict {
		if now := w.lookup(); now != nil && now.UID == r.UID && now.ResourceVersion != r.ResourceVersion {
			return now, nil // the watch was as fast as the answer
		}
	} else if err := pauseFor(ctx, w.clock, wait); err != nil {
		return nil, err
	}
	now, err := w.newestState(ctx, r)
	switch {
	case err == nil && now == nil:
		return nil, nil
	case err == nil && now.ResourceVersion != r.ResourceVersion:
		return now, nil
	case conflict:
		return r, pauseFor(ctx, w.clock, wait)
	}
	return r, nil
}

// newestState returns the request as the API server has it, nil if it is gone.
func (w writer) newestState(ctx context.Context, r *v1beta1.ResolutionRequest) (*v1beta1.ResolutionRequest, error) {
	now, err := w.client.ResolutionV1beta1().ResolutionRequests(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && now.UID != r.UID {
		return nil, nil
	}
	return now, err
}

// isStale reports whether the API server refused a write because the request is no longer as it was read: it has another resource
// version, or a test of the JSON patch failed. The latter is Invalid, like a bad value, but names no field (jsonPatcher in
// k8s.io/apiserver/pkg/endpoints/handlers/patch.go).
func isStale(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return apierrors.IsConflict(err)
	}
	d := status.Status().Details
	return d == nil || !slices.ContainsFunc(d.Causes, func(c metav1.StatusCause) bool { return c.Field != "" })
}

// passingCause names the cause of an error that may pass; empty if it will not. refused is since when the API server forbids the
// write.
func (w writer) passingCause(err error, refused *time.Time) string {
	switch {
	case isStale(err):
		return "conflict"
	case apierrors.IsForbidden(err) && refused.IsZero():
		*refused = w.clock.Now()
		return "forbidden"
	case apierrors.IsForbidden(err) && w.clock.Since(*refused) < disbelief:
		return "forbidden"
	case isPermanent(err):
		return ""
	}
	*refused = time.Time{}
	return "unavailable"
}

// pauseFor waits; the error is the cause of the context's end.
func pauseFor(ctx context.Context, c clock.Clock, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.After(d):
		return nil
	}
}

// isPermanent reports whether the API server has understood the call and will refuse it again.
func isPermanent(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) ||
		tooLarge(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotAcceptable(err) ||
		apierrors.IsUnsupportedMediaType(err)
}

// tooLarge reports whether the object would be larger than the API server or etcd accepts. The API server passes etcd's message on
// as an internal error (api/v3rpc/rpctypes, ErrRequestTooLarge), so only the text identifies it.
func tooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || (err != nil && strings.Contains(err.Error(), "etcdserver: request is too large"))
}
