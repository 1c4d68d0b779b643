package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/brief"
	"sluice.dev/requester"
)

// A delivery can take what a source of Flux has fetched, instead of fetching itself. It reads the source as the ServiceAccount of the
// delivery, so nobody gets content through a delivery that the account may not see. For example: a GitRepository with revision
// main@sha1:ab12, of which the archive is downloaded by URL and checked by its digest.

// fluxPoll is how often a source of Flux is looked at. Nothing watches it: it is read as the ServiceAccount of each delivery.
const fluxPoll = 30 * time.Second

// fluxResources has the resource of each kind of sources.
var fluxResources = map[string]string{"GitRepository": "gitrepositories", "OCIRepository": "ocirepositories", "Bucket": "buckets"}

// fluxArtifact is what Flux has fetched for a source: its field status.artifact.
type fluxArtifact struct{ url, digest, revision string }

// readArtifact reads the artifact of the source of Flux, as the ServiceAccount. The error is for people.
func (r *run) readArtifact(ctx context.Context) (*fluxArtifact, error) {
	f := r.d.Spec.Source.Flux
	client, err := dynamic.NewForConfig(r.impersonatedConfig())
	if err != nil {
		return nil, err
	}
	of := schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: fluxResources[f.Kind]}
	u, err := client.Resource(of).Namespace(r.d.Namespace).Get(ctx, f.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, failedFlux("NotFound", "the cluster does not serve the kind %s of %s; install Flux's source-controller", f.Kind, of.GroupVersion())
	case apierrors.IsNotFound(err):
		return nil, failedFlux("NotFound", "there is no %s %s in the namespace %s", f.Kind, f.Name, r.d.Namespace)
	case err != nil:
		return nil, err
	}
	field := func(name string) string {
		value, _, _ := unstructured.NestedString(u.Object, "status", "artifact", name)
		return value
	}
	a := &fluxArtifact{field("url"), field("digest"), field("revision")}
	if a.url == "" || a.digest == "" || a.revision == "" {
		exact, why := whyUnready(u)
		return nil, failedFlux(exact, "the %s %s has no artifact yet%s", f.Kind, f.Name, why)
	}
	return a, nil
}

// failedFlux is the failure of a source of Flux, with its precise cause in the terms of package resolve; empty for none.
func failedFlux(exact, format string, args ...any) error {
	return &requester.FailedError{Reason: v1alpha1.ReasonResolutionFailed, Exact: exact, Message: fmt.Sprintf(format, args...)}
}

// whyUnready is what the conditions of a source say of its generation, and the precise cause if Flux has given up on it.
func whyUnready(u *unstructured.Unstructured) (exact, message string) {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range list {
		m, _ := c.(map[string]any)
		if observed, ok := m["observedGeneration"].(int64); ok && observed < u.GetGeneration() {
			continue
		}
		isTrue := m["status"] == string(metav1.ConditionTrue)
		if m["type"] == v1alpha1.ConditionReady && !isTrue {
			message = fmt.Sprintf(": %v", m["message"])
		}
		if m["type"] == v1alpha1.ConditionStalled && isTrue {
			exact = "InvalidParams"
		}
	}
	return exact, message
}

// sourceMoved reports whether the source of Flux has another revision than the one that was fetched last.
//
// It is false if the source cannot be read now: the next round will tell that.
func (r *run) sourceMoved(ctx context.Context) bool {
	if r.d.Spec.Source.Flux == nil {
		return false
	}
	a, err := r.readArtifact(ctx)
	return err == nil && (r.d.Status.Observed == nil || r.d.Status.Observed.Revision != a.revision)
}

// fetchFlux returns the content of the source of Flux. If it cannot, it returns nil and when to try again.
func (r *run) fetchFlux(ctx context.Context) (*fetched, time.Duration) {
	f := r.d.Spec.Source.Flux
	if used := r.d.Status.Request; used != nil { // the source was another one before
		if err := r.deleteRequest(ctx, used.Name, used.UID); err != nil {
			return nil, r.retryAfter(ctx, keyOf(r.d), "cannot delete a request", err)
		}
		r.d.Status.Request = nil
	}
	var data []byte
	a, err := r.readArtifact(ctx)
	if err == nil {
		data, err = r.Archive(ctx, a.url, a.digest, f.Path)
	}
	if ctx.Err() != nil {
		return nil, firstRetry
	}
	if err != nil {
		reason, message := v1alpha1.ReasonResolutionFailed, brief.OneLine(err.Error())
		if failed, ok := errors.AsType[*requester.FailedError](err); ok {
			message = brief.OneLine(failed.Message)
			r.stuck = slices.Contains(stalledSources, failed.Exact)
		} else if apierrors.IsForbidden(err) {
			reason, message = v1alpha1.ReasonForbidden, fmt.Sprintf("refused to the ServiceAccount %s: %s", r.accountName(), message)
		}
		r.setUnresolved(metav1.ConditionFalse, reason, message)
		return nil, r.retryPause(keyOf(r.d), r.checkInterval())
	}
	algorithm, hash, _ := strings.Cut(a.digest, ":")
	out := &fetched{
		data: data, name: sourceName(&r.d.Spec.Source), ended: r.now, digests: map[string]string{algorithm: hash},
		revision: &v1alpha1.Revision{Revision: a.revision, Digest: contentDigest(data), URI: a.url, EntryPoint: f.Path},
	}
	r.d.Status.Observed = out.revision
	r.setCondition(v1alpha1.ConditionResolved, metav1.ConditionTrue, v1alpha1.ReasonResolved, "fetched "+a.revision)
	return out, 0
}
