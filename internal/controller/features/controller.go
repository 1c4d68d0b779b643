package features

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/policy"
)

// Members divides components among processes.
type Members interface {
	// Owns reports whether this process is the one to work on the object in that role.
	Owns(role string, uid types.UID) bool
	// OnChange registers f to be called after every change of the members.
	OnChange(f func())
}

const (
	defaultWorkers = 4
	// firstRetry and lastRetry bound the pause before a retry after a failure; it doubles.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
	// pause is the time after a write of policies before the next settings are written into them, so that a series of changes causes only
	// a few writes.
	pause = 100 * time.Millisecond

	// anchors is the key for objects that belong to no component.
	anchors = ""
)

// Controller keeps policies, the webhook configuration and status in step. All fields but those that say so are required.
type Controller struct {
	Cluster
	// Members divides the work; nil: this process has all of it.
	Members Members
	// Workers bounds the components that are processed at once; 0 stands for 4.
	Workers int
	// UsageInterval is the interval between counts of the stored objects that use features; 0 stands for [DefaultUsageInterval], a
	// negative value means never.
	UsageInterval time.Duration

	Metrics  *Metrics
	Recorder record.EventRecorder
}

// Run works until ctx is done. It calls ready when it has seen all existing objects.
func (c *Controller) Run(ctx context.Context, ready func()) error {
	c.runSessions(ctx, func(ctx context.Context, can server) error { return c.runSession(ctx, can, ready) })
	return nil
}

// session runs as long as the API server has the same abilities.
type session struct {
	*Controller
	*planner

	server   server
	usage    *usage
	objects  *objects
	stores   map[string]cache.SharedIndexInformer // by resource
	queue    workqueue.TypedDelayingInterface[string]
	failures workqueue.TypedRateLimiter[string]
	looks    workqueue.TypedRateLimiter[string] // for checks that the API server enforces the policies

	mu      sync.Mutex
	seen    map[string]seen      // by component
	written map[string]time.Time // the last write of the policies of a component
	applied map[string]applied   // by resource and name
}

// applied is an object that this process has written.
type applied struct {
	want, stored runtime.Object
	at           time.Time
}

func (c *Controller) runSession(outer context.Context, can server, ready func()) error {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	s := &session{
		Controller: c, server: can, objects: &objects{c.Kube.AdmissionregistrationV1().RESTClient()}, stores: map[string]cache.SharedIndexInformer{},
		queue:    workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Clock: c.Clock}),
		failures: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
		looks:    workqueue.NewTypedItemExponentialFailureRateLimiter[string](probeSoon, probeLate),
		seen:     map[string]seen{}, written: map[string]time.Time{}, applied: map[string]applied{},
	}
	c.Metrics.waiting.Follow(s.queue.Len)
	w, err := c.openWorld(s.queue.Add)
	if err != nil {
		return err
	}
	s.planner = &planner{world: w, server: can}
	s.usage = newUsage(c.Clock, cmp.Or(c.UsageInterval, DefaultUsageInterval), c.Namespace, c.Log)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer w.settings.waitForWatches()
	defer cancel(nil)
	defer s.queue.ShutDown()
	synced := []cache.InformerSynced{}
	for resource, of := range s.watchedKinds() {
		i, err := s.watchResource(resource, of)
		if err != nil {
			return err
		}
		s.stores[resource] = i
		synced = append(synced, i.HasSynced)
		wg.Go(func() { i.RunWithContext(ctx) })
	}
	if c.Members != nil {
		c.Members.OnChange(s.queueAll)
	}
	if !w.startInformers(ctx, &wg) || !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return context.Cause(ctx)
	}
	ready()
	s.queueAll()
	wg.Go(func() {
		if err := s.followServer(ctx, can); err != nil {
			cancel(err)
		}
	})
	wg.Go(func() {
		if err := s.countUse(ctx); err != nil {
			s.Log.Error("the objects that use features are not counted", "error", err)
		}
	})
	workers := c.Workers
	if workers == 0 {
		workers = defaultWorkers
	}
	for range workers {
		wg.Go(func() { s.runWorker(ctx) })
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// watchedKinds lists the watched kinds of admissionregistration.k8s.io/v1.
func (s *session) watchedKinds() map[string]runtime.Object {
	out := map[string]runtime.Object{
		validatingHooks: &admissionregistrationv1.ValidatingWebhookConfiguration{},
		mutatingHooks:   &admissionregistrationv1.MutatingWebhookConfiguration{},
	}
	if s.server.validating {
		out[validatingPolicies] = &admissionregistrationv1.ValidatingAdmissionPolicy{}
		out[validatingBindings] = &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	}
	if s.server.mutating {
		out[mutatingPolicies] = &admissionregistrationv1.MutatingAdmissionPolicy{}
		out[mutatingBindings] = &admissionregistrationv1.MutatingAdmissionPolicyBinding{}
	}
	return out
}

// watchResource watches the objects of a resource that the controller has made.
func (s *session) watchResource(resource string, of runtime.Object) (cache.SharedIndexInformer, error) {
	list := cache.NewFilteredListWatchFromClient(s.objects.rest, resource, metav1.NamespaceAll, func(o *metav1.ListOptions) {
		if resource == validatingHooks || resource == mutatingHooks {
			o.FieldSelector = metav1.ObjectNameField + "=" + Configuration
			return
		}
		o.LabelSelector = labels.SelectorFromSet(labels.Set{ManagedByLabel: Manager}).String()
	})
	i := cache.NewSharedIndexInformer(list, of, 0, cache.Indexers{byComponent: func(o any) ([]string, error) {
		m, err := meta.Accessor(o)
		if err != nil {
			return nil, err
		}
		return []string{m.GetLabels()[policy.ComponentLabel]}, nil
	}})
	tell := func(o any) {
		m, err := meta.Accessor(lastObject(o))
		switch {
		case err != nil:
		case resource == validatingHooks || resource == mutatingHooks:
			s.queueAll()
		default:
			s.queue.Add(m.GetLabels()[policy.ComponentLabel])
		}
	}
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell,
		UpdateFunc: func(a, b any) {
			x, errX := meta.Accessor(a)
			y, errY := meta.Accessor(b)
			if errX == nil && errY == nil && x.GetResourceVersion() == y.GetResourceVersion() {
				return
			}
			tell(a)
			tell(b)
		},
	})
	return i, err
}

// queueAll queues everything.
func (s *session) queueAll() {
	s.queue.Add(anchors)
	for _, name := range s.components.GetStore().ListKeys() {
		s.queue.Add(name)
	}
	for _, o := range s.features.GetStore().List() {
		if f, ok := o.(*v1alpha1.Feature); ok {
			s.queue.Add(f.Spec.Component)
		}
	}
	for _, o := range s.madeObjects() {
		if m, err := meta.Accessor(o); err == nil {
			s.queue.Add(m.GetLabels()[policy.ComponentLabel])
		}
	}
}

// madeObjects lists all objects that the controller has made to enforce features.
func (s *session) madeObjects() (out []runtime.Object) {
	for resource, i := range s.stores {
		if resource == validatingHooks || resource == mutatingHooks {
			continue
		}
		for _, o := range i.GetStore().List() {
			if r, ok := o.(runtime.Object); ok {
				out = append(out, r)
			}
		}
	}
	return out
}

// madeFor lists the objects that the controller has made for a component.
func (s *session) madeFor(component string) (out []runtime.Object) {
	for _, resource := range []string{validatingPolicies, validatingBindings, mutatingPolicies, mutatingBindings} {
		i := s.stores[resource]
		if i == nil {
			continue
		}
		list, err := i.GetIndexer().ByIndex(byComponent, component)
		if err != nil {
			continue // there is no such index, which a test would have found
		}
		for _, o := range list {
			m, err := meta.Accessor(o)
			if r, ok := o.(runtime.Object); ok && err == nil && isManaged(m) {
				out = append(out, r)
			}
		}
	}
	return out
}

func (s *session) runWorker(ctx context.Context) {
	for {
		key, closed := s.queue.Get()
		if closed {
			return
		}
		again, err := s.reconcileSafely(ctx, key)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.Log.Warn("a component is not in order yet", "component", key, "error", err)
			s.queue.AddAfter(key, soonest(again, s.failures.When(key)))
		default:
			s.failures.Forget(key)
			if again > 0 {
				s.queue.AddAfter(key, again)
			}
		}
		s.queue.Done(key)
	}
}

// reconcileSafely is reconcile with a panic turned into an error, so that one component does not stop the others.
func (s *session) reconcileSafely(ctx context.Context, key string) (again time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.Log.Error("a reconciliation panicked", "component", key, "panic", r, "stack", string(debug.Stack()))
			err = errors.New("the controller failed: this is a mistake in it, and its log has more")
		}
	}()
	return s.reconcileComponent(ctx, key)
}

func (s *session) ownsComponent(key string) bool {
	return s.Members == nil || s.Members.Owns(Role, types.UID("component/"+key))
}

// reconcileComponent does the due work for a component and returns when to check again, 0 for not before something changes.
func (s *session) reconcileComponent(ctx context.Context, key string) (time.Duration, error) {
	if key == addressUser {
		s.queueAll()
		return 0, nil
	}
	if !s.ownsComponent(key) {
		s.settings.keepOnly(key, nil)
		s.usage.setGated(key, nil)
		s.Metrics.dropComponent(key)
		return 0, nil
	}
	if key == anchors {
		return 0, s.maintainAnchors(ctx)
	}
	c := s.componentCopy(key)
	if c == nil || c.DeletionTimestamp != nil {
		return 0, s.deleteMade(ctx, key)
	}
	start := s.Clock.Now()
	p, err := s.planComponent(ctx, c)
	if err != nil {
		return 0, err
	}
	s.Metrics.observePlan(s.Clock.Since(start))
	for _, name := range p.neighbours {
		s.queue.Add(name)
	}
	s.usage.setGated(key, p.gatedResources())
	done := &outcome{}
	again := s.enforcePlan(ctx, p, done)
	_, left := s.today()
	again = soonest(soonest(again, left), p.gated.untilReread())
	return soonest(again, s.writeStatus(ctx, p, done)), done.retryErrors()
}

// soonest is the shorter of two waits; 0 stands for none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// deleteMade deletes the objects that were made for a deleted component.
func (s *session) deleteMade(ctx context.Context, name string) error {
	s.settings.keepOnly(name, nil)
	for _, near := range s.neighboursOf(name) {
		s.queue.Add(near)
	}
	s.usage.setGated(name, nil)
	s.forgetComponent(name)
	s.looks.Forget(name)
	s.mu.Lock()
	delete(s.seen, name)
	s.mu.Unlock()
	s.Metrics.dropComponent(name)
	errs := []error{s.writeHooks(ctx, name, nil)}
	list := s.madeFor(name)
	removalOrder(list)
	for _, o := range list {
		err := s.objects.deleteObject(ctx, o)
		s.Metrics.countWrite(resourceOf(o), "delete", err)
		if err == nil {
			s.forgetApplied(o)
		}
		errs = append(errs, err)
	}
	errs = append(errs, s.writeOrphans(ctx, name))
	return errors.Join(errs...)
}

// maintainAnchors maintains the objects that belong to no component, and removes webhooks of components that were deleted while no controller
// ran.
func (s *session) maintainAnchors(ctx context.Context) error {
	var errs []error
	for _, want := range anchorObjects(s.Namespace, s.server) {
		setDefaults(want)
		if have := s.storedObject(want); have != nil && sameAsWanted(want, have) {
			continue
		}
		_, err := s.objects.applyObject(ctx, want)
		s.Metrics.countWrite(resourceOf(want), "apply", err)
		errs = append(errs, err)
	}
	for _, name := range s.hookedComponents() {
		if s.componentCopy(name) == nil {
			s.queue.Add(name)
		}
	}
	return errors.Join(errs...)
}

// storedObject is the newest known stored object with the name of an object; nil if there is none.
func (s *session) storedObject(want runtime.Object) runtime.Object {
	m, err := meta.Accessor(want)
	i := s.stores[resourceOf(want)]
	if err != nil || i == nil {
		return nil
	}
	o, ok, err := i.GetStore().GetByKey(m.GetName())
	seen, isObject := o.(runtime.Object)
	if err != nil || !ok || !isObject {
		return nil
	}
	s.mu.Lock()
	own := s.applied[keyOf(want)].stored
	s.mu.Unlock()
	if own != nil && storedBefore(seen, own) {
		return own // the watch has not seen the write yet
	}
	return seen
}

// storedBefore reports whether a was stored before b.
func storedBefore(a, b runtime.Object) bool {
	x, errX := meta.Accessor(a)
	y, errY := meta.Accessor(b)
	if errX != nil || errY != nil || x.GetUID() != y.GetUID() {
		return false
	}
	n, err := resourceversion.CompareResourceVersion(x.GetResourceVersion(), y.GetResourceVersion())
	return err == nil && n < 0
}

// keyOf is the resource and the name of an object.
func keyOf(o runtime.Object) string {
	m, err := meta.Accessor(o)
	if err != nil {
		return ""
	}
	return resourceOf(o) + "/" + m.GetName()
}

// forgetApplied forgets an object that this process has written and now deleted.
func (s *session) forgetApplied(o runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.applied, keyOf(o))
}

// recordApplied records a write. It reports whether the object is the same as the last one that this process wrote: then another client has
// changed or deleted it in between.
func (s *session) recordApplied(want, stored runtime.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.applied[keyOf(want)]
	s.applied[keyOf(want)] = applied{want, stored, s.Clock.Now()}
	if !known || !sameAsWanted(want, before.want) {
		return false
	}
	a, errA := meta.Accessor(before.stored)
	b, errB := meta.Accessor(stored)
	return errA == nil && errB == nil && a.GetResourceVersion() != b.GetResourceVersion()
}
