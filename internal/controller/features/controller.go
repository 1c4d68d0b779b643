package features

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/policy"
)

// The controller works on one component at a time: it plans, enforces the plan, and writes the status. Anything that may change the
// result queues the component: its own objects, the policies and webhooks that were made for it, its settings, reports of processes,
// or the end of a time. A look at a component that is in order writes nothing.

// Run works until ctx is done. It calls ready when it has seen all existing objects.
func (c *Controller) Run(ctx context.Context, ready func()) error {
	c.runSessions(ctx, func(ctx context.Context, can server) error { return c.runSession(ctx, can, ready) })
	return nil
}

// runSession runs one session until outer ends or the API server has other abilities, and returns the cause. Its goroutines have
// ended when it returns. The order of the deferred calls matters: the queue ends before the watches that feed it.
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
	// A kind that the API server no longer serves would keep the session waiting for ever.
	wg.Go(func() {
		if err := s.followServer(ctx, can); err != nil {
			cancel(err)
		}
	})
	if !w.startInformers(ctx, &wg) || !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return context.Cause(ctx)
	}
	ready()
	s.queueAll()
	wg.Go(func() {
		if err := s.countUse(ctx); err != nil {
			s.Log.Error("the objects that use features are not counted", "error", err)
		}
	})
	for range workers {
		wg.Go(func() { c.workOff(ctx, s.queue, s.failures, s.reconcileComponent) })
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// watchedKinds lists the watched kinds of admissionregistration.k8s.io/v1.
//
// A kind that the API server does not serve is left out: its informer would never be in sync.
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
//
// The configurations of webhooks are watched by name, and a change there is about all components. Other objects are watched by the
// label of the controller.
func (s *session) watchResource(resource string, of runtime.Object) (cache.SharedIndexInformer, error) {
	list := cache.NewFilteredListWatchFromClient(s.objects.rest, resource, metav1.NamespaceAll, func(o *metav1.ListOptions) {
		if resource == validatingHooks || resource == mutatingHooks {
			o.FieldSelector = metav1.ObjectNameField + "=" + Configuration
			return
		}
		o.LabelSelector = labels.SelectorFromSet(labels.Set{ManagedByLabel: Manager}).String()
	})
	i := cache.NewSharedIndexInformer(list, of, 0, cache.Indexers{byComponent: func(o any) ([]string, error) {
		return []string{asObject(o).GetLabels()[policy.ComponentLabel]}, nil
	}})
	tell := func(o any) {
		switch m := asObject(lastObject(o)); {
		case m == nil:
		case resource == validatingHooks || resource == mutatingHooks:
			s.queueAll()
		default:
			s.queue.Add(m.GetLabels()[policy.ComponentLabel])
		}
	}
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell,
		UpdateFunc: func(a, b any) {
			if asObject(a).GetResourceVersion() != asObject(b).GetResourceVersion() {
				tell(a)
				tell(b)
			}
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
		s.queue.Add(o.GetLabels()[policy.ComponentLabel])
	}
}

// reconcileComponent does the due work for a component and returns when to check again, 0 for not before something changes.
//
// The key is the name of a component, [anchors] or [addressUser]. The order of the steps is that of what may go wrong: without a plan
// nothing is written, and the status is written last, with what became of the rest.
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
	if len(c.Status.Conditions) == 0 && s.announceWork(ctx, c) {
		return pause, nil // after other components
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
	again = shorterWait(shorterWait(again, left), p.gated.untilReread())
	return shorterWait(again, s.writeStatus(ctx, p, done)), done.retryErrors()
}

// deleteMade deletes the objects that were made for a deleted component.
//
// Bindings go before policies. The features of the component are told that it is gone.
func (s *session) deleteMade(ctx context.Context, name string) error {
	s.settings.keepOnly(name, nil)
	for _, near := range s.rememberedOf(name).near {
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

// maintainAnchors maintains the objects that belong to no component, and removes webhooks of components that were deleted while no
// controller ran.
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
	for _, name := range slices.Concat(s.hookOwners(validatingHooks), s.hookOwners(mutatingHooks)) {
		if s.componentCopy(name) == nil {
			s.queue.Add(name)
		}
	}
	return errors.Join(errs...)
}
