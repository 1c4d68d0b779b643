package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	resolutionv1beta1 "sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/requester"
)

// The source is fetched by a ResolutionRequest, like those of a Tekton run: the resolvers have the rights, the caches and the
// policies. The controller creates the request and goes on with other work. Its end queues the delivery again, and then this file
// reads the content. The next round deletes the request and creates another one.

// lookAgain bounds the delay that a missed event can cause.
const lookAgain = time.Minute

// fetched is the content of the source.
type fetched struct {
	data     []byte
	name     string // of the source, for people
	revision *v1alpha1.Revision
	digests  map[string]string
	// request has fetched it; ended is the time of that.
	request *v1alpha1.RequestReference
	ended   time.Time
}

// fetchSource returns the content of the source. Until the source is fetched, it returns nil and when to check again.
//
// Each round has its own request, because an ended request never changes. The status names the request of the last round, which
// this call deletes first. An ended request that the status does not name belongs to this round.
func (r *run) fetchSource(ctx context.Context, resolver string, spec resolutionv1beta1.ResolutionRequestSpec) (*fetched, time.Duration) {
	gvk := v1alpha1.SchemeGroupVersion.WithKind(kind)
	owner := requester.OwnedBy(r.d, gvk)
	name, err := requester.Name(resolver, r.d.Namespace+"/"+r.d.Name, spec)
	if err != nil {
		r.setCondition(v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonInvalidSource, err.Error())
		return nil, r.endWithProblem(v1alpha1.ReasonInvalidSource, err.Error())
	}
	used := r.d.Status.Request
	if used != nil {
		if err := r.deleteRequest(ctx, used.Name, used.UID); err != nil {
			return nil, r.endUnresolved(ctx, err)
		}
		r.d.Status.Request = nil
	}
	q, err := r.Client.ResolutionV1beta1().ResolutionRequests(r.d.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil && used != nil && q.UID == used.UID {
		r.d.Status.Request = used
		return nil, firstRetry // it is still being deleted
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, r.endUnresolved(ctx, err)
	}
	resource, err := r.requester.Submit(ctx, owner, resolver, spec)
	if errors.Is(err, requester.ErrInProgress) {
		if c := r.findCondition(v1alpha1.ConditionReady); c == nil || c.ObservedGeneration != r.d.Generation {
			r.setUnresolved(metav1.ConditionUnknown, v1alpha1.ReasonResolving, "the source is being fetched")
		}
		return nil, lookAgain
	}
	if q == nil || q.UID == "" {
		// It has ended between the two calls: the event of that is on its way.
		return nil, firstRetry
	}
	request := &v1alpha1.RequestReference{Name: q.Name, UID: q.UID}
	if err != nil {
		// In any case, another attempt needs another request.
		r.d.Status.Request = request
		return nil, r.endUnresolved(ctx, err)
	}
	out := &fetched{
		data: resource.Data, name: sourceName(&r.d.Spec.Source), request: request, ended: r.now,
		revision: revisionOf(resource),
	}
	if c := q.Status.Succeeded(); c != nil {
		out.ended = c.LastTransitionTime.Time
	}
	if resource.Source != nil {
		out.digests = resource.Source.Digest
	}
	r.d.Status.Observed = out.revision
	r.setCondition(v1alpha1.ConditionResolved, metav1.ConditionTrue, v1alpha1.ReasonResolved, "fetched "+out.revision.Revision)
	return out, 0
}

// revisionOf is the revision that a resource says it is of; its digest if it says none.
//
// A commit (sha1) comes before a digest of the remote (sha256), because people know their commits.
func revisionOf(resource *requester.Resource) *v1alpha1.Revision {
	digest := contentDigest(resource.Data)
	out := &v1alpha1.Revision{Revision: digest, Digest: digest}
	s := resource.Source
	if s == nil {
		return out
	}
	out.URI, out.EntryPoint = s.URI, s.EntryPoint
	for _, algorithm := range []string{"sha1", "sha256"} {
		if v := s.Digest[algorithm]; v != "" {
			out.Revision = algorithm + ":" + v
			break
		}
	}
	return out
}

// failureMessage returns the message of a failed request after its precise cause. Our controller has put the cause there already.
func failureMessage(failed *requester.FailedError) string {
	if failed.Exact == "" || strings.HasPrefix(failed.Message, failed.Exact+": ") {
		return failed.Message
	}
	return failed.Exact + ": " + failed.Message
}

// endUnresolved says that the source could not be fetched, and returns when to try again.
//
// An error that only says that the API server does not answer changes no condition: it could not be written either. Causes that need
// a person make the delivery Stalled.
func (r *run) endUnresolved(ctx context.Context, err error) time.Duration {
	var message string
	reason := v1alpha1.ReasonResolutionFailed
	failed, isFailed := errors.AsType[*requester.FailedError](err)
	conflict, isConflict := errors.AsType[*requester.ConflictError](err)
	data, isData := errors.AsType[*requester.DataError](err)
	switch {
	case isFailed:
		message = failureMessage(failed)
		r.stuck = slices.Contains(stalledSources, failed.Exact)
	case isConflict:
		// No other process makes requests of this name: it is being deleted, or was created by hand.
		message = conflict.Error()
	case isData:
		message = data.Error()
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		reason, message = v1alpha1.ReasonNamespaceTerminating, fmt.Sprintf("the namespace %s is being deleted", r.d.Namespace)
	default:
		// The API server does not answer, so an event or a status cannot be written.
		return r.retryAfter(ctx, keyOf(r.d), "cannot ask for a source", err)
	}
	r.setUnresolved(metav1.ConditionFalse, reason, message)
	return r.retryPause(keyOf(r.d), r.checkInterval())
}

// setUnresolved says in both conditions why there is no content.
func (r *run) setUnresolved(status metav1.ConditionStatus, reason, message string) {
	r.setCondition(v1alpha1.ConditionResolved, status, reason, message)
	r.setCondition(v1alpha1.ConditionReady, status, reason, message)
}

// deleteRequest deletes a request, unless it is gone. A conflict means that another request has its name by now.
func (r *run) deleteRequest(ctx context.Context, name string, uid types.UID) error {
	err := r.Client.ResolutionV1beta1().ResolutionRequests(r.d.Namespace).Delete(ctx, name, *metav1.NewPreconditionDeleteOptions(string(uid)))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// contentDigest is the digest of content in the form that OCI has.
func contentDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
