package resolution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	"sluice.dev/internal/fairqueue"
	"sluice.dev/resolve"
)

// The adapter brings a request to its resolver and the result back into its status. A request is worked on by one worker of one
// process, as far as that can be known. If two work on it, the first write counts, and the other sees a finished request. For
// example, a request of namespace a waits in the queue while the requests of a that run hold its share of the slots, and one of
// namespace b goes first.

// key names one request for as long as it exists: another request of the same name has another UID.
type key struct {
	namespace, name string
	uid             types.UID
}

// Resolver is the part of a resolver that the adapter uses. Parameters arrive as the request has them, not yet validated. The
// reservation is the memory that the result takes, nil for none. The adapter releases it when the result has been written.
type Resolver interface {
	Hold(ctx context.Context, r *resolve.Request) (*resolve.Resource, *resolve.Reservation, error)
}

// shutdownGrace is the time in which a process that ends still tries to write its results.
const shutdownGrace = 5 * time.Second

// largeAtOnce bounds the contents over the limit that are compressed or stored at once.
const largeAtOnce = 4

// writesAtOnce bounds the status writes of one process that are under way at once. More writes would not be faster, because they
// all wait for the API server. They would delay the renewal of the process's Lease, which waits in the same queue. Then other
// replicas would assume that the process is gone, and repeat its work.
const writesAtOnce = 64

// Role is the role of sluice serve, and of Members, that runs the resolver of that name.
func Role(resolver string) string { return "resolver-" + resolver }

// Why work on a request ends early; causes of its context.
var (
	errGone     = &resolve.Error{Reason: resolve.ReasonCanceled, Msg: "the request was deleted"}
	errFinished = &resolve.Error{Reason: resolve.ReasonCanceled, Msg: "the request was finished by another"}
	errTime     = &resolve.Error{Reason: resolve.ReasonTimedOut, Msg: "the time of the request is up"}
)

// Adapter runs the requests of some resolvers, in one process. All fields but those that say so are required.
type Adapter struct {
	Client versioned.Interface
	Kube   kubernetes.Interface
	// Resolvers by canonical name.
	Resolvers map[string]Resolver
	// Namespace and Account are those of the process's ServiceAccount.
	Namespace, Account string
	// Members divides the work; nil: this process has all of it.
	Members *Members
	// Slots bounds the requests in work at once; 0 stands for 512. One namespace gets half of them, and fewer if more namespaces have
	// work.
	Slots int
	// MaxData is the limit of content in bytes; 0 stands for [DefaultMaxData].
	MaxData int
	// Compress and Store are for content over MaxData: it is compressed if it fits then, or else put into the store. Without them, or
	// if the API has no fields for it, the request fails. MaxContent is the limit of such content in bytes; 0 stands for
	// [DefaultMaxContent].
	Compress   bool
	Store      Store
	MaxContent int
	// Timeout is the operator's limit.
	Timeout *Timeout
	// Identity finds the user on whose behalf a request is made, for the resolver of that name; nil leaves it empty.
	Identity func(ctx context.Context, r *v1beta1.ResolutionRequest, resolver string) (string, error)
	// Writes bounds the bytes of status writes that are under way at once; nil bounds nothing.
	Writes   *resolve.Memory
	Metrics  *Metrics
	Recorder record.EventRecorder
	// Tracer records a trace of each request; nil records none.
	Tracer trace.Tracer
	Log    *slog.Logger
	Clock  clock.Clock
	// Server has the times that the API server gives to objects; nil: they are the local clock's.
	Server *ServerClock

	// began is when the process began to work, by the clock of the API server: its configuration is read then.
	began     time.Time
	placer    placer
	writing   chan struct{}
	queue     *fairqueue.Queue[key]
	informers []cache.SharedIndexInformer

	// cancels has the function that ends the work on a request, a context.CancelCauseFunc, by its key while the work goes on.
	cancels sync.Map
	// settled has the keys of the requests that this process has finished, until the informer brings the finished object. Older events
	// that are still on their way would otherwise make it resolve them again.
	settled sync.Map
}

// Run works until ctx is done. It returns when all work has ended; another replica, or this one after its next start, resumes
// unfinished requests. ready is called when all existing requests have been seen.
func (a *Adapter) Run(ctx context.Context, ready func()) error {
	slots := cmp.Or(a.Slots, 512)
	a.Server = cmp.Or(a.Server, NewServerClock(a.Clock))
	a.MaxData = cmp.Or(a.MaxData, DefaultMaxData)
	a.began = a.Server.Now()
	a.placer = placer{
		limit: a.MaxData, most: cmp.Or(a.MaxContent, DefaultMaxContent), compress: a.Compress, store: a.Store,
		support: &support{ask: func() (bool, error) { return hasFields(a.Kube.Discovery()) }, clock: a.Clock}, turn: make(chan struct{}, largeAtOnce),
	}
	a.queue = fairqueue.New(slots, func(k key) string { return k.namespace })
	a.Metrics.waiting.Follow(a.queue.Len)
	a.writing = make(chan struct{}, writesAtOnce)
	for _, selector := range a.labelSelectors() {
		i, err := a.informFor(selector)
		if err != nil {
			return err
		}
		a.informers = append(a.informers, i)
	}
	if a.Members != nil {
		a.Members.OnChange(a.recheckAll)
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	synced := make([]cache.InformerSynced, 0, len(a.informers))
	for _, i := range a.informers {
		wg.Go(func() { i.RunWithContext(ctx) })
		synced = append(synced, i.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	ready()
	for range slots {
		wg.Go(func() {
			for {
				k, ok := a.queue.Get(ctx)
				if !ok {
					return
				}
				a.resolveAndFinish(ctx, k)
				a.queue.Done(k)
				// It may have become due again while it ran, after a failed write for example.
				if r := a.cachedRequest(k); r != nil && ctx.Err() == nil {
					a.queueIfOurs(r)
				}
			}
		})
	}
	<-ctx.Done()
	return nil
}

// labelSelectors returns the label selectors of our requests. A selector has no "or", so there is one for the type label and one for
// requests that have only the older label.
func (a *Adapter) labelSelectors() []string {
	var names []string
	for name := range a.Resolvers {
		names = append(names, resolution.Names(name)...)
	}
	in := "in (" + strings.Join(names, ",") + ")"
	return []string{
		resolution.LabelType + " " + in,
		"!" + resolution.LabelType + "," + resolution.LabelResolver + " " + in,
	}
}

// informFor returns an informer for the requests that a label selector chooses. Its cache has them without their content; see
// slimRequest.
func (a *Adapter) informFor(selector string) (cache.SharedIndexInformer, error) {
	i, err := newInformer(a.Client, selector, slimRequest)
	if err != nil {
		return nil, err
	}
	_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    a.onObject,
		UpdateFunc: func(_, o any) { a.onObject(o) },
		DeleteFunc: a.onDelete,
	})
	return i, err
}

func keyOf(r *v1beta1.ResolutionRequest) key {
	return key{namespace: r.Namespace, name: r.Name, uid: r.UID}
}

// onObject queues a request that has work to do, and ends the work on one that is finished or is being deleted.
func (a *Adapter) onObject(o any) {
	r, ok := o.(*v1beta1.ResolutionRequest)
	if !ok {
		return
	}
	switch {
	case r.DeletionTimestamp != nil:
		a.stopRequest(keyOf(r), errGone)
	case r.Status.Finished():
		a.stopRequest(keyOf(r), errFinished)
	default:
		a.queueIfOurs(r)
	}
}

func (a *Adapter) onDelete(o any) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	if r, ok := o.(*v1beta1.ResolutionRequest); ok {
		a.stopRequest(keyOf(r), errGone)
	}
}

// queueIfOurs queues a request that this process has to work on. One with data but no condition is the lifecycle controller's: its
// resolver follows the seed protocol.
func (a *Adapter) queueIfOurs(r *v1beta1.ResolutionRequest) {
	if r.DeletionTimestamp != nil || r.Status.Finished() || r.Status.HasContent() {
		return
	}
	name := resolverOf(r)
	_, settled := a.settled.Load(keyOf(r))
	if _, ok := a.Resolvers[name]; ok && !settled && a.Members.Owns(Role(name), r.UID) {
		a.queue.Add(keyOf(r))
	}
}

// resolverOf is the resolver whose informer has delivered the request: the one of the type label, if the two labels disagree.
func resolverOf(r *v1beta1.ResolutionRequest) string {
	if t := r.Labels[resolution.LabelType]; t != "" {
		return resolution.Canonical(t)
	}
	return resolution.Canonical(r.Labels[resolution.LabelResolver])
}

// recheckAll queues the requests that this process has to work on now.
func (a *Adapter) recheckAll() {
	for _, i := range a.informers {
		for _, o := range i.GetStore().List() {
			if r, ok := o.(*v1beta1.ResolutionRequest); ok {
				a.queueIfOurs(r)
			}
		}
	}
}

func (a *Adapter) stopRequest(k key, cause error) {
	a.queue.Forget(k)
	a.settled.Delete(k)
	found, _ := a.cancels.Load(k)
	if cancel, ok := found.(context.CancelCauseFunc); ok {
		cancel(cause)
	}
}

// cachedRequest returns the request in the cache; nil if it is missing, or if another one has its name.
func (a *Adapter) cachedRequest(k key) *v1beta1.ResolutionRequest {
	for _, i := range a.informers {
		if r := k.requestIn(i.GetStore()); r != nil {
			return r
		}
	}
	return nil
}

// requestIn returns the request in a store; nil if it is missing, or if another one has its name.
func (k key) requestIn(store cache.Store) *v1beta1.ResolutionRequest {
	o, ok, err := store.GetByKey(k.namespace + "/" + k.name)
	if r, isRequest := o.(*v1beta1.ResolutionRequest); err == nil && ok && isRequest && r.UID == k.uid {
		return r
	}
	return nil
}

// resolveAndFinish resolves one request and writes the result. A request that ends meanwhile gets none: its context ends with the
// cause, and the write is left out. A write that has begun when the process ends has shutdownGrace. A request that is not resolved by
// then stays unfinished.
func (a *Adapter) resolveAndFinish(process context.Context, k key) {
	r := a.cachedRequest(k)
	if r == nil || r.DeletionTimestamp != nil || r.Status.Finished() {
		return
	}
	name := resolverOf(r)
	limit := a.Timeout.Get()
	start := a.Clock.Now()
	a.Metrics.observePhase(name, phaseQueue, a.Server.Now().Sub(r.CreationTimestamp.Time))
	a.Metrics.inFlight.WithLabelValues(name).Inc()
	defer a.Metrics.inFlight.WithLabelValues(name).Dec()

	ctx, cancel := context.WithCancelCause(process)
	defer cancel(nil)
	a.cancels.Store(k, cancel)
	defer a.cancels.Delete(k)
	// An event that came before the registration has not canceled anything.
	if now := a.cachedRequest(k); now == nil || now.DeletionTimestamp != nil || now.Status.Finished() {
		return
	}

	ctx, tr := startTrace(ctx, a.Tracer, r, name, start)
	var res *resolve.Resource
	var where kept
	var err error
	var held *resolve.Reservation
	defer func() { tr.endTrace(res, err); held.Release() }()
	tr.runPhase(ctx, phaseResolve, func(ctx context.Context) { res, held, where, err = a.resolveRequest(ctx, r, name, limit) })
	a.Metrics.observePhase(name, phaseResolve, a.Clock.Since(start))
	if ctx.Err() != nil {
		if process.Err() == nil {
			a.Metrics.requests.WithLabelValues(name, "canceled", string(resolve.ReasonCanceled)).Inc()
			a.Log.Debug("canceled", "namespace", r.Namespace, "name", r.Name, "resolver", name, "cause", context.Cause(ctx))
		}
		return
	}
	// From here on, a cancellation would only hide the result of the write.
	writing, end := outlivingContext(process, a.Clock, shutdownGrace)
	defer end()
	tr.runPhase(writing, phaseWrite, func(writing context.Context) { a.writeResult(writing, k, r, name, start, res, where, err) })
}

// outlivingContext returns a context that ends some time after its parent.
func outlivingContext(parent context.Context, c clock.Clock, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		select {
		case <-ctx.Done():
		case <-c.After(d):
			cancel()
		}
	})
	return ctx, func() { stop(); cancel() }
}

// resolveRequest resolves the request and finds a place for the result, in the time that the request has left.
//
// held is memory that the result takes; the caller releases it when the result is written. It is nil after an error. A resolver that
// panics fails its request and not the process.
func (a *Adapter) resolveRequest(ctx context.Context, r *v1beta1.ResolutionRequest, name string, limit time.Duration) (res *resolve.Resource, held *resolve.Reservation, where kept, err error) {
	if _, err := resolution.Resolver(r.Labels); err != nil {
		return nil, nil, kept{}, resolve.Errorf(resolve.ReasonInvalid, "%w", err)
	}
	left := min(deadlineOf(r, limit).Sub(a.Server.Now()), timeoutOf(r, limit))
	if left <= 0 {
		return nil, nil, kept{}, timedOut(r, limit, a.lateText(r, deadlineOf(r, limit)))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, left, errTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			a.Log.Error("a resolver panicked", "resolver", name, "panic", p, "stack", string(debug.Stack()))
			held.Release()
			res, held, where, err = nil, nil, kept{}, resolve.Errorf(resolve.ReasonFailed, "the resolver %s has a defect; its log tells more", name)
		}
	}()
	req := &resolve.Request{
		Namespace: r.Namespace, Name: r.Name, UID: string(r.UID),
		Secrets: Credentials{Kube: a.Kube, Namespace: a.Namespace, Account: a.Account},
	}
	if req.NotBefore, err = lookAfter(r, a.Server.Now()); err != nil {
		return nil, nil, kept{}, err
	}
	if !req.NotBefore.IsZero() {
		req.NotBefore = a.Server.Local(req.NotBefore)
	}
	if r, err = a.withSpec(ctx, r); err != nil {
		return nil, nil, kept{}, err
	}
	req.URL = r.Spec.URL
	if req.Params, err = paramValues(r.Spec.Params); err != nil {
		return nil, nil, kept{}, err
	}
	if a.Identity != nil {
		if req.Identity, err = a.Identity(ctx, r, name); err != nil {
			return nil, nil, kept{}, err
		}
	}
	res, held, err = a.Resolvers[name].Hold(ctx, req)
	defer func() {
		if err != nil {
			held.Release()
			held = nil
		}
	}()
	if err == nil && res == nil {
		return nil, held, kept{}, resolve.Errorf(resolve.ReasonFailed, "the resolver %s has a defect: it returned neither content nor an error", name)
	}
	if err == nil {
		if e := a.stampAnnotations(res); e != nil {
			return nil, held, kept{}, e
		}
		where, err = a.placer.placeContent(ctx, res.Data)
	}
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errTime):
		return nil, held, kept{}, timedOut(r, limit, "the resolver was still at work: "+asError(err).Msg)
	case err != nil:
		return nil, held, kept{}, err
	}
	return res, held, where, nil
}

// lateText says why the resolver came to a request after its deadline.
func (a *Adapter) lateText(r *v1beta1.ResolutionRequest, deadline time.Time) string {
	since := func(at time.Time) time.Duration { return at.Sub(r.CreationTimestamp.Time).Round(time.Second) }
	if a.began.After(deadline) {
		return fmt.Sprintf("the resolver has begun to work %s after its creation; before that it did not run, or could not read its configuration", since(a.began))
	}
	return fmt.Sprintf("the resolver came to it %s after its creation; it had other requests to do, or the API server did not answer", since(a.Server.Now()))
}

// stampAnnotations gives the time of the look by the clock of the API server, and checks the annotations.
func (a *Adapter) stampAnnotations(res *resolve.Resource) *resolve.Error {
	if res.Annotations[resolve.AnnotationLookedAt] != "" && !res.LookedAt.IsZero() {
		res.Annotations = maps.Clone(res.Annotations)
		res.Annotations[resolve.AnnotationLookedAt] = a.Server.Server(res.LookedAt).UTC().Format(time.RFC3339Nano)
	}
	return checkAnnotations(res)
}

// paramValues are the parameters of a request by their names.
func paramValues(params []v1beta1.Param) (map[string]resolve.Value, error) {
	out := make(map[string]resolve.Value, len(params))
	for _, p := range params {
		if _, twice := out[p.Name]; twice {
			return nil, resolve.Errorf(resolve.ReasonInvalid, "the parameter %q stands twice", p.Name)
		}
		out[p.Name] = ParamValue(p.Value)
	}
	return out, nil
}

// withSpec is the request with its spec, which the cache does not keep if it is large.
func (a *Adapter) withSpec(ctx context.Context, r *v1beta1.ResolutionRequest) (*v1beta1.ResolutionRequest, error) {
	if r.Annotations[annotationSpecLeftOut] == "" {
		return r, nil
	}
	now, err := a.Client.ResolutionV1beta1().ResolutionRequests(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case apierrors.IsNotFound(err) || err == nil && now.UID != r.UID:
		return nil, errGone
	case err != nil:
		e := resolve.Transientf("the parameters of the request cannot be read now")
		e.Err = err
		return nil, e
	}
	if n := specBytes(&now.Spec); n > maxSpec {
		return nil, resolve.Errorf(resolve.ReasonTooLarge, "the parameters of the request have %d bytes; at most %d are allowed", n, maxSpec)
	}
	return now, nil
}

// lookAfter is the time before which no look at the remote serves the request; zero for none.
func lookAfter(r *v1beta1.ResolutionRequest, now time.Time) (time.Time, error) {
	switch text := r.Annotations[resolution.AnnotationLookAfter]; text {
	case "":
		return time.Time{}, nil
	case "now":
		return now, nil
	default:
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return at, resolve.Errorf(resolve.ReasonInvalid, `the annotation %s is %q; want "now", or a time such as 2026-01-02T15:04:05Z`, resolution.AnnotationLookAfter, text)
		}
		return at, nil
	}
}

// ParamValue is the value of a parameter of a request, as resolvers take it.
func ParamValue(v v1beta1.ParamValue) resolve.Value {
	switch v.Type {
	case v1beta1.ParamTypeArray:
		return resolve.Value{Type: resolve.Array, Array: v.ArrayVal}
	case v1beta1.ParamTypeObject:
		return resolve.Value{Type: resolve.Object, Object: v.ObjectVal}
	case v1beta1.ParamTypeString:
	}
	return resolve.Value{Type: resolve.String, String: v.StringVal}
}

// writeBytes is the approximate size of a write for content of size bytes: the content in base64, and the rest.
func writeBytes(size int) int64 { return int64(size)*4/3 + 4<<10 }

// writeResult writes the result of the request, and reports it in events and metrics.
//
// If the API server refuses the content, the request fails with that reason, or it would wait for its time-out. If it refuses the
// status altogether, the request stays in progress.
func (a *Adapter) writeResult(ctx context.Context, k key, r *v1beta1.ResolutionRequest, name string, start time.Time, res *resolve.Resource, where kept, err error) {
	writing, now := a.Clock.Now(), a.Server.Now()
	var s statusFields
	outcome, reason, size := "succeeded", "", 0
	if err == nil {
		s, size = succeededStatus(res, where, now), len(res.Data)
	} else {
		e := asError(err)
		s, outcome, reason = failedStatus(e, now), "failed", string(e.Reason)
		if e.Reason == resolve.ReasonTimedOut {
			outcome = "timed_out"
		}
	}
	held, full := a.Writes.Reserve(ctx, writeBytes(len(s.data)))
	if full != nil {
		return // the process ends
	}
	defer held.Release()
	select {
	case a.writing <- struct{}{}:
	case <-ctx.Done():
		return
	}
	release := sync.OnceFunc(func() { <-a.writing })
	defer release()
	w := writer{client: a.Client, metrics: a.Metrics, clock: a.Clock, resolver: name, lookup: func() *v1beta1.ResolutionRequest { return a.cachedRequest(k) }}
	// The mark exists before the event of the write, and goes if nothing is written.
	a.settled.Store(k, true)
	wrote, werr := w.writeStatus(ctx, r, s, "result")
	if werr != nil && err == nil && !wrote && ctx.Err() == nil {
		// The API server takes the request's status, but not with this content.
		e := resolve.Errorf(resolve.ReasonFailed, "the API server refuses to store the content of %d bytes: %w", size, werr)
		if tooLarge(werr) {
			e.Reason = resolve.ReasonTooLarge
		}
		s, outcome, reason, size = failedStatus(e, now), "failed", string(e.Reason), 0
		wrote, werr = w.writeStatus(ctx, r, s, "result")
	}
	release()
	if !wrote {
		a.settled.Delete(k)
	}
	log := a.Log.With("namespace", r.Namespace, "name", r.Name, "resolver", name, "duration", a.Clock.Since(start))
	switch {
	case wrote:
	case ctx.Err() != nil:
		return
	case werr != nil:
		log.Error("cannot write the status of a request; it stays in progress until its time is up", "error", werr)
		a.Metrics.requests.WithLabelValues(name, "failed", "StatusNotWritten").Inc()
		// This is not retried at once: an operator must act first, and the time-out ends the request.
		_ = pauseFor(ctx, a.Clock, 5*time.Second) // whatever ends it
		return
	default:
		return
	}
	a.Metrics.requests.WithLabelValues(name, outcome, reason).Inc()
	a.Metrics.bytes.WithLabelValues(name).Add(float64(size))
	if outcome == "succeeded" {
		a.Metrics.placed.WithLabelValues(name, where.placeLabel()).Inc()
	}
	a.Metrics.observePhase(name, phaseWrite, a.Clock.Since(writing))
	a.Metrics.observePhase(name, phaseTotal, a.Server.Now().Sub(r.CreationTimestamp.Time))
	log.Debug(outcome, "reason", reason, "bytes", size)
	if c := s.Conditions[0]; c.Status == metav1.ConditionFalse {
		a.Recorder.Event(r, corev1.EventTypeWarning, cmp.Or(reason, c.Reason), fmt.Sprintf("%s: %s", name, c.Message))
	}
}
