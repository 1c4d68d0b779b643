package resolution

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	"sluice.dev/resolve"
)

// What happens to requests for which no resolver does anything? The lifecycle controller gives each an end: it marks those that wait,
// ends those whose time is over, and deletes those that nobody owns. It looks at a request when it changes and when its next time is
// due, so ten thousand waiting requests cost no polling.

// LifecycleRole is the role of sluice serve, and of Members, that runs the lifecycle controller.
const LifecycleRole = "resolution"

const (
	// progressAfter is the age at which a request is marked as in progress. Creation times are whole seconds, so this leaves a
	// resolver one second.
	progressAfter = 2 * time.Second
	// progressQPS and progressBurst bound these writes, so that a wave of requests does not cause a wave of writes. Requests that
	// finish before their turn need none.
	progressQPS   = 5
	progressBurst = 20
	// timeoutGrace lets a resolver that stops at the same moment write what it knows.
	timeoutGrace = 500 * time.Millisecond
	// unknownAfter is the age at which a request ends because no process runs its resolver. The resolver may just be starting.
	unknownAfter = 10 * time.Second
	// countAgain is the time for which a count of waiting requests is valid.
	countAgain = time.Second
	// lifecycleRetry is the pause after a request could not be written, or after a panic.
	lifecycleRetry = 5 * time.Second
)

// DefaultTTL is the time to live of a finished request without an owner.
const DefaultTTL = time.Hour

// Lifecycle manages all requests. It marks those that wait, and ends those whose time is over or that name no resolver. It finishes
// those whose resolver wrote only data. It deletes finished requests without an owner after their time to live. All fields are
// required unless they say otherwise.
type Lifecycle struct {
	Client versioned.Interface
	// Members divides the work; nil: this process has all of it.
	Members *Members
	// Known knows the existing resolvers; with nil, every name may be a resolver's.
	Known   *Known
	Timeout *Timeout
	// TTL is the time to live of finished requests without an owner; 0 stands for [DefaultTTL], a negative one keeps them.
	TTL      time.Duration
	Metrics  *Metrics
	Recorder record.EventRecorder
	Log      *slog.Logger
	Clock    clock.WithTicker
	// Server has the times that the API server gives to objects; nil: they are the local clock's.
	Server *ServerClock

	informer cache.SharedIndexInformer
	queue    workqueue.TypedDelayingInterface[key]
	progress flowcontrol.RateLimiter

	mu      sync.Mutex
	counted time.Time
	waiting map[string]int
}

// Run works until ctx is done. ready is called when all existing requests have been seen.
func (l *Lifecycle) Run(ctx context.Context, ready func()) error {
	l.Server = cmp.Or(l.Server, NewServerClock(l.Clock))
	l.TTL = cmp.Or(l.TTL, DefaultTTL)
	l.progress = flowcontrol.NewTokenBucketRateLimiter(progressQPS, progressBurst)
	l.queue = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[key]{Clock: l.Clock})
	var err error
	if l.informer, err = newInformer(l.Client, "", withoutSpec); err != nil {
		return err
	}
	add := func(o any) {
		if r, ok := o.(*v1beta1.ResolutionRequest); ok {
			l.queue.Add(keyOf(r))
		}
	}
	if _, err := l.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }}); err != nil {
		return err
	}
	if l.Members != nil {
		l.Members.OnChange(func() {
			for _, o := range l.informer.GetStore().List() {
				add(o)
			}
		})
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.queue.ShutDown()
	wg.Go(func() { l.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), l.informer.HasSynced) {
		return nil
	}
	ready()
	for range 8 {
		wg.Go(func() {
			for {
				k, closed := l.queue.Get()
				if closed {
					return
				}
				if again := l.reconcileSafely(ctx, k); again > 0 {
					l.queue.AddAfter(k, again)
				}
				l.queue.Done(k)
			}
		})
	}
	<-ctx.Done()
	return nil
}

func (l *Lifecycle) cachedRequest(k key) *v1beta1.ResolutionRequest {
	return k.requestIn(l.informer.GetStore())
}

// reconcileSafely is reconcileRequest with protection from panics: a panic causes a retry of this request, and does not affect others.
func (l *Lifecycle) reconcileSafely(ctx context.Context, k key) (again time.Duration) {
	defer func() {
		if r := recover(); r != nil {
			l.Log.Error("the lifecycle of a request panicked", "namespace", k.namespace, "name", k.name, "panic", r, "stack", string(debug.Stack()))
			again = lifecycleRetry
		}
	}()
	return l.reconcileRequest(ctx, k)
}

// reconcileRequest does the due work for one request and returns when to check again, 0 for not before it changes.
//
// Ends come before marks: a request whose time is over is not marked as in progress. The mark has its own rate limit, and is written
// again only if it has become untrue.
func (l *Lifecycle) reconcileRequest(ctx context.Context, k key) time.Duration {
	r := l.cachedRequest(k)
	if r == nil || r.DeletionTimestamp != nil || ctx.Err() != nil || !l.Members.Owns(LifecycleRole, r.UID) {
		return 0
	}
	now := l.Server.Now()
	if r.Status.Finished() {
		return l.retireRequest(ctx, r, now)
	}
	name, err := resolution.Resolver(r.Labels)
	if err != nil {
		return l.endRequest(ctx, r, "none", "refused", failedStatus(resolve.Errorf(resolve.ReasonInvalid, "%w", err), now))
	}
	if r.Status.HasContent() {
		return l.endRequest(ctx, r, name, "finished", statusFields{Conditions: succeededCondition(metav1.ConditionTrue, "", "", now)})
	}
	limit := l.Timeout.Get()
	left := deadlineOf(r, limit).Add(timeoutGrace).Sub(now)
	if left <= 0 {
		return l.endRequest(ctx, r, name, "timed_out", failedStatus(timedOut(r, limit, l.waitingText(name, now)), now))
	}
	if missing := l.Known.missingError(name); missing != nil {
		young := unknownAfter - now.Sub(r.CreationTimestamp.Time)
		if young <= 0 {
			// The name is a client's text, which must not become a label of metrics.
			return l.endRequest(ctx, r, "none", "refused", failedStatus(missing, now))
		}
		left = min(left, young)
	}
	said := r.Status.Succeeded()
	if said != nil && r.Status.ObservedGeneration == r.Generation && !l.isOutdated(said, name) {
		return left
	}
	if young := progressAfter - now.Sub(r.CreationTimestamp.Time); young > 0 {
		return min(young, left)
	}
	if !l.progress.TryAccept() {
		return min(time.Second, left)
	}
	mark := succeededCondition(metav1.ConditionUnknown, resolution.ReasonInProgress, inProgress+l.waitingText(name, now), now)
	if said != nil && said.Status == metav1.ConditionUnknown {
		mark[0].LastTransitionTime = said.LastTransitionTime
	}
	if again := l.writeOnce(ctx, r, name, "in_progress", statusFields{Conditions: mark}); again > 0 {
		return min(again, left)
	}
	return left
}

// inProgress is the prefix of the message of a waiting request. The state of the request follows.
const inProgress = resolution.MessageInProgress + ": "

// isOutdated reports whether the mark of a request is no longer true: its resolver has ended or started since.
func (l *Lifecycle) isOutdated(said *v1beta1.Condition, resolver string) bool {
	text, ours := strings.CutPrefix(said.Message, inProgress)
	return ours && l.Known != nil && !strings.HasPrefix(text, l.Known.presenceText(resolver))
}

// waitingText says what a request to a resolver waits for.
//
// The count goes through all requests in the cache, so it is kept for [countAgain]. It tells a user whether the resolver is slow or
// has much to do.
func (l *Lifecycle) waitingText(resolver string, now time.Time) string {
	if l.Known == nil {
		return fmt.Sprintf("the resolver %q has not answered", resolver)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil || now.Sub(l.counted) >= countAgain || now.Before(l.counted) {
		l.counted, l.waiting = now, map[string]int{}
		for _, o := range l.informer.GetStore().List() {
			if r, ok := o.(*v1beta1.ResolutionRequest); ok && !r.Status.Finished() {
				l.waiting[resolverOf(r)]++
			}
		}
	}
	return fmt.Sprintf("%s; requests that wait for it: %d", l.Known.presenceText(resolver), l.waiting[resolver])
}

// endRequest writes the last status of a request, and an event if it failed.
func (l *Lifecycle) endRequest(ctx context.Context, r *v1beta1.ResolutionRequest, resolver, what string, s statusFields) time.Duration {
	w := writer{client: l.Client, metrics: l.Metrics, clock: l.Clock, resolver: resolver, lookup: func() *v1beta1.ResolutionRequest { return l.cachedRequest(keyOf(r)) }}
	wrote, err := w.writeStatus(ctx, r, s, what)
	if err != nil {
		return l.logTrouble(ctx, r, err)
	}
	if !wrote {
		return 0
	}
	outcome, reason := "succeeded", ""
	if c := s.Conditions[0]; c.Status == metav1.ConditionFalse {
		reason = s.Annotations[resolution.AnnotationReason]
		if outcome = "failed"; what == "timed_out" {
			outcome = what
		}
		l.Recorder.Event(r, corev1.EventTypeWarning, reason, c.Message)
	}
	l.Metrics.requests.WithLabelValues(resolver, outcome, reason).Inc()
	l.Metrics.observePhase(resolver, phaseTotal, l.Server.Now().Sub(r.CreationTimestamp.Time))
	l.Log.Debug(outcome, "namespace", r.Namespace, "name", r.Name, "resolver", resolver, "reason", reason)
	return 0
}

// writeOnce tries only once, because the status may be out of date at the next try.
func (l *Lifecycle) writeOnce(ctx context.Context, r *v1beta1.ResolutionRequest, resolver, what string, s statusFields) time.Duration {
	p, err := patchFor(r, s)
	if err != nil {
		return l.logTrouble(ctx, r, err)
	}
	l.Metrics.writes.WithLabelValues(what).Inc()
	err = patchStatus(ctx, l.Client, r, p)
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return 0
	case isStale(err):
		l.Metrics.retries.WithLabelValues(resolver, "conflict").Inc()
		return time.Second
	}
	return l.logTrouble(ctx, r, err)
}

func (l *Lifecycle) logTrouble(ctx context.Context, r *v1beta1.ResolutionRequest, err error) time.Duration {
	if ctx.Err() == nil {
		l.Log.Error("cannot write the status of a request", "namespace", r.Namespace, "name", r.Name, "error", err)
	}
	return lifecycleRetry
}

// retireRequest deletes a finished request without an owner when its time to live is over.
func (l *Lifecycle) retireRequest(ctx context.Context, r *v1beta1.ResolutionRequest, now time.Time) time.Duration {
	if len(r.OwnerReferences) > 0 || l.TTL < 0 {
		return 0
	}
	ended := r.CreationTimestamp.Time
	if c := r.Status.Succeeded(); c != nil && c.LastTransitionTime.After(ended) {
		ended = c.LastTransitionTime.Time
	}
	if left := ended.Add(l.TTL).Sub(now); left > 0 {
		return left
	}
	l.Metrics.writes.WithLabelValues("deleted").Inc()
	// The version protects a request that has got an owner in the meantime.
	err := l.Client.ResolutionV1beta1().ResolutionRequests(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return l.logTrouble(ctx, r, err)
	}
	return 0
}
