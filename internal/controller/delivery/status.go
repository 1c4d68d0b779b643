package delivery

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/brief"
)

// Conditions and events of a delivery. A condition says what is so, and an event that something has changed: the same message again
// sends no event.

const (
	// maxMessage bounds the message of a condition, in bytes.
	maxMessage = 2000
	// maxEvent bounds the message of an event, in bytes.
	maxEvent = 1000
)

// event is something that has changed.
type event struct{ kind, reason, message string }

func (r *run) findCondition(conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(r.d.Status.Conditions, conditionType)
}

// setCondition sets a condition.
func (r *run) setCondition(conditionType string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&r.d.Status.Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: brief.Clip(message, maxMessage), ObservedGeneration: r.d.Generation,
		LastTransitionTime: metav1.NewTime(r.now),
	})
}

// stalled are the reasons of Ready that need an action of a person, even if the controller tries again.
var stalled = []string{
	v1alpha1.ReasonBlocked, v1alpha1.ReasonInvalidSource, v1alpha1.ReasonInvalidConfiguration, v1alpha1.ReasonForbidden,
	v1alpha1.ReasonImpersonationRefused, v1alpha1.ReasonFieldConflict, v1alpha1.ReasonOtherApp, v1alpha1.ReasonDependencyCycle,
	v1alpha1.ReasonTooManyDeletions, v1alpha1.ReasonObjectsRefused,
}

// stalledSources are the precise causes of a source that cannot be fetched until a person acts. Package resolve has them all.
var stalledSources = []string{"InvalidParams", "NotFound", "AccessDenied", "ForbiddenByPolicy", "ContentTooLarge", "VerificationFailed"}

// isRefusedAsInvalid reports whether the API server refuses an object of the source as invalid, whenever it is applied.
func isRefusedAsInvalid(err error) bool {
	return slices.ContainsFunc(splitErrors(err), apierrors.IsInvalid)
}

// setStalled sets the condition Stalled from the condition Ready. If this round has not set Ready, what was known of its cause stays.
//
// kstatus takes an object with Stalled for failed for good. So it is set only where waiting does not help.
func (r *run) setStalled() {
	ready, before := r.findCondition(v1alpha1.ConditionReady), r.findCondition(v1alpha1.ConditionStalled)
	holds := ready != nil && (r.stuck || slices.Contains(stalled, ready.Reason) || before != nil && before.Reason == ready.Reason && before.Message == ready.Message)
	if r.d.Spec.Suspend || !holds || ready.Status == metav1.ConditionTrue || ready.ObservedGeneration != r.d.Generation {
		meta.RemoveStatusCondition(&r.d.Status.Conditions, v1alpha1.ConditionStalled)
		return
	}
	r.setCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, ready.Reason, ready.Message)
}

func metaTime(t time.Time) *metav1.Time {
	s := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &s
}

// sendEvents sends events about the changes since before: about actions, and about Ready if its status or reason has changed. If
// another finding now stops a stopped delivery, that is an event as well.
func (r *run) sendEvents(before *v1alpha1.Delivery) {
	for _, e := range r.events {
		r.Recorder.Event(r.d, e.kind, e.reason, brief.Clip(e.message, maxEvent))
	}
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReady)
	is := r.findCondition(v1alpha1.ConditionReady)
	if is == nil || is.Status == metav1.ConditionUnknown {
		return
	}
	again := is.Reason == v1alpha1.ReasonBlocked && !ptr.Equal(before.Status.Decided, r.d.Status.Decided)
	if was != nil && was.Status == is.Status && was.Reason == is.Reason && !again {
		return
	}
	eventType := corev1.EventTypeWarning
	if is.Status == metav1.ConditionTrue {
		eventType = corev1.EventTypeNormal
	}
	r.Recorder.Event(r.d, eventType, is.Reason, brief.Clip(is.Message, maxEvent))
}

// sameSubject reports whether two decisions are about the same content and settings, apart from the features in use.
func sameSubject(a, b *v1alpha1.Decided) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.Features, y.Features = "", ""
	return x == y
}
