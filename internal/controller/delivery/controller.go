package delivery

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"sluice.dev/api/resolution"
	resolutionv1beta1 "sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/apply"
	"sluice.dev/client/informers"
	"sluice.dev/client/versioned"
	"sluice.dev/internal/fairqueue"
	"sluice.dev/requester"
)

// The controller does one round for a delivery at a time. A delivery is due when it changes, when its request ends, when one that it
// depends on becomes ready, or when its interval is over. Deliveries of different namespaces take turns, so that one team with many
// of them does not hold up the others.

// Role is the role of sluice serve that runs this controller.
const Role = "delivery"

// Members divides deliveries among processes.
type Members interface {
	// Owns reports whether this process is the one to work on the object in that role.
	Owns(role string, uid types.UID) bool
	// OnChange registers f to be called after every change of the members.
	OnChange(f func())
}

const (
	// workers bounds the deliveries in work at once. Those of one namespace get a share of them, which is smaller the more namespaces
	// have work, and half of them at most.
	workers         = 16
	defaultInterval = 10 * time.Minute
	defaultTimeout  = 5 * time.Minute
	// firstRetry and lastRetry bound the pause before something that has failed is tried again; it doubles.
	firstRetry = 2 * time.Second
	lastRetry  = 5 * time.Minute
	// patience bounds the time that a worker waits for others during an apply. lastWait is the longest pause before it checks
	// again.
	patience = 5 * time.Second
	lastWait = 15 * time.Second
)

// Controller works on deliveries. All fields but those that say so are required.
type Controller struct {
	// Config connects to the cluster as the controller; ServiceAccounts are impersonated on top of it.
	Config *rest.Config
	Kube   kubernetes.Interface
	Client versioned.Interface
	// Namespace is that of the controller, for messages; empty for sluice-system.
	Namespace string
	// Members divides the work; nil: this process has all of it.
	Members Members
	// Store has content that is too large for a ResolutionRequest; nil: such content is an error.
	Store requester.Store
	// Archive returns the YAML and JSON files below a folder of an archive of Flux, as one stream. The content at the address has the
	// digest. A [*requester.FailedError] has the precise cause.
	Archive  func(ctx context.Context, url, digest, folder string) ([]byte, error)
	Metrics  *Metrics
	Recorder record.EventRecorder
	Log      *slog.Logger
	Clock    clock.WithTicker

	api       *client
	requester requester.Requester
	informer  cache.SharedIndexInformer
	queue     workqueue.TypedDelayingInterface[types.NamespacedName]
	failures  workqueue.TypedRateLimiter[types.NamespacedName]
	contents  *contents
	locks     apply.Locks
}

// Run works until ctx is done. A running apply then stops at once; the next process continues it. ready is called when all existing
// deliveries have been seen.
func (c *Controller) Run(ctx context.Context, ready func()) error {
	var err error
	if c.api, err = newClient(c.Config); err != nil {
		return err
	}
	c.contents = newContents(maxContents)
	c.requester = requester.Requester{
		Client: c.Client.ResolutionV1beta1(), Store: c.Store,
		// A webhook may have reported a push to a delivery.
		Annotations: map[string]string{resolution.AnnotationLookAfter: "now"},
	}
	c.queue = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.NamespacedName]{Clock: c.Clock})
	c.failures = workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry)
	c.informer = c.api.newInformer()
	if _, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: c.onAdd, UpdateFunc: c.onUpdate, DeleteFunc: c.onDelete}); err != nil {
		return err
	}
	requests := informers.NewSharedInformerFactory(c.Client, 0).Resolution().V1beta1().ResolutionRequests().Informer()
	if err := requests.SetTransform(slimRequest); err != nil {
		return err
	}
	if _, err := requests.AddEventHandler(requester.Handler(v1alpha1.SchemeGroupVersion.WithKind(kind).GroupKind(), c.queue.Add)); err != nil {
		return err
	}
	if c.Members != nil {
		c.Members.OnChange(c.queueAll)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.queue.ShutDown()
	wg.Go(func() { c.informer.RunWithContext(ctx) })
	wg.Go(func() { requests.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced, requests.HasSynced) {
		return nil
	}
	ready()
	due := fairqueue.New(workers, func(k types.NamespacedName) string { return k.Namespace })
	c.Metrics.waiting.Follow(c.queue.Len, due.Len)
	// Two structures hand over due deliveries: c.queue knows when, and that no delivery is worked on twice at once; due knows whose
	// turn it is.
	wg.Go(func() {
		for {
			k, closed := c.queue.Get()
			if closed {
				return
			}
			due.Add(k)
		}
	})
	for range workers {
		wg.Go(func() {
			for {
				k, ok := due.Get(ctx)
				if !ok {
					return
				}
				if again := c.reconcileSafely(ctx, k); again > 0 {
					c.queue.AddAfter(k, again)
				}
				due.Done(k)
				c.queue.Done(k)
			}
		})
	}
	<-ctx.Done()
	return nil
}

// slimRequest drops the parts from the cache that only the reader of a request needs.
func slimRequest(o any) (any, error) {
	r, ok := o.(*resolutionv1beta1.ResolutionRequest)
	if !ok {
		return o, nil
	}
	r.ManagedFields, r.Spec, r.Status.Data = nil, resolutionv1beta1.ResolutionRequestSpec{}, ""
	return r, nil
}

func (c *Controller) onAdd(o any) {
	if d, ok := o.(*v1alpha1.Delivery); ok {
		c.queue.Add(keyOf(d))
		c.queueDependents(d)
	}
}

// onUpdate ignores writes of this controller itself, except that other deliveries may wait for them.
func (c *Controller) onUpdate(before, after any) {
	a, okA := before.(*v1alpha1.Delivery)
	b, okB := after.(*v1alpha1.Delivery)
	if !okA || !okB {
		return
	}
	if a.UID != b.UID || a.Generation != b.Generation || a.Annotations[v1alpha1.AnnotationReconcile] != b.Annotations[v1alpha1.AnnotationReconcile] {
		c.failures.Forget(keyOf(b))
		c.queue.Add(keyOf(b))
	}
	if isReady(a) != isReady(b) || a.Generation != b.Generation {
		c.queueDependents(b)
	}
}

// onDelete drops what the process remembers of a delivery that is gone, and queues those that depend on it: they have to say that it
// is missing.
func (c *Controller) onDelete(o any) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	if d, ok := o.(*v1alpha1.Delivery); ok {
		c.failures.Forget(keyOf(d))
		c.Metrics.forgetDelivery(keyOf(d))
		c.contents.forgetContent(d.UID)
		c.queueDependents(d)
	}
}

// queueDependents queues the deliveries that depend on d.
func (c *Controller) queueDependents(d *v1alpha1.Delivery) {
	list, err := c.informer.GetIndexer().ByIndex(byDependency, keyOf(d).String())
	if err != nil {
		return // there is no such index, which a test would have found
	}
	for _, o := range list {
		if other, ok := o.(*v1alpha1.Delivery); ok {
			c.queue.Add(keyOf(other))
		}
	}
}

// queueAll queues the deliveries that this process may work on now.
func (c *Controller) queueAll() {
	for _, o := range c.informer.GetStore().List() {
		if d, ok := o.(*v1alpha1.Delivery); ok {
			c.queue.Add(keyOf(d))
		}
	}
}

// retryPause is the pause after a failure, at most the interval of the delivery.
func (c *Controller) retryPause(k types.NamespacedName, most time.Duration) time.Duration {
	return min(c.failures.When(k), most)
}

// reconcileSafely is reconcileDelivery with protection from panics: a panic causes a retry of this delivery, and does not affect
// others.
func (c *Controller) reconcileSafely(ctx context.Context, k types.NamespacedName) (again time.Duration) {
	defer func() {
		if r := recover(); r != nil {
			c.Log.Error("a delivery panicked", "namespace", k.Namespace, "name", k.Name, "panic", r, "stack", string(debug.Stack()))
			again = c.retryPause(k, lastRetry)
		}
	}()
	return c.reconcileDelivery(ctx, k)
}

// reconcileDelivery does the due work for a delivery and returns when to check again, 0 for not before something changes.
func (c *Controller) reconcileDelivery(ctx context.Context, k types.NamespacedName) time.Duration {
	d, err := c.api.readDelivery(ctx, k)
	switch {
	case apierrors.IsNotFound(err):
		return 0
	case err != nil:
		return c.retryAfter(ctx, k, "cannot read a delivery", err)
	case c.Members != nil && !c.Members.Owns(Role, d.UID):
		c.Metrics.forgetDelivery(k)
		c.contents.forgetContent(d.UID)
		return 0
	}
	before := d.DeepCopy()
	r := &run{Controller: c, d: d, now: c.Clock.Now()}
	var again time.Duration
	if d.DeletionTimestamp != nil {
		again = r.finalizeDelivery(ctx)
		if again == 0 {
			return 0
		}
	} else {
		if err := c.api.setFinalizer(ctx, d, d.Spec.DeletionPolicy == v1alpha1.DeletionDelete); err != nil {
			return c.retryAfter(ctx, k, "cannot set the finalizer of a delivery", err)
		}
		again = r.deliverDue(ctx)
		if d.Spec.Source.Flux != nil {
			again = min(again, fluxPoll)
		}
	}
	r.setStalled()
	if ctx.Err() != nil {
		return 0
	}
	c.Metrics.setGauges(d)
	if equality.Semantic.DeepEqual(before.Status, d.Status) {
		return again
	}
	err = c.api.updateStatus(ctx, d)
	switch {
	case apierrors.IsNotFound(err):
		return 0
	case apierrors.IsConflict(err):
		// The delivery was changed in the meantime, so the results may be outdated.
		return firstRetry
	case err != nil:
		return c.retryAfter(ctx, k, "cannot write the status of a delivery", err)
	}
	r.sendEvents(before)
	return again
}

func (c *Controller) retryAfter(ctx context.Context, k types.NamespacedName, what string, err error) time.Duration {
	if ctx.Err() == nil {
		c.Log.Warn(what, "namespace", k.Namespace, "name", k.Name, "error", err)
	}
	return c.retryPause(k, lastRetry)
}
