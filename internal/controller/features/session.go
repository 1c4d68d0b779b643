package features

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/brief"
)

// A session has the queue, the caches and the memory of what this process has written. The watch may be behind the process's own
// writes. So the objects that came back from a write count until the watch has them, or the controller would repair what it has just
// written.

const (
	// workers bounds the components that are processed at once.
	workers = 4
	// pause is the time after a write of policies before the next settings are written into them, so that a series of changes causes
	// only a few writes.
	pause = 100 * time.Millisecond

	// anchors is the key for objects that belong to no component.
	anchors = ""
)

// Members divides components among processes.
type Members interface {
	// Owns reports whether this process is the one to work on the object in that role.
	Owns(role string, uid types.UID) bool
	// OnChange registers f to be called after every change of the members.
	OnChange(f func())
}

// Controller keeps policies, the webhook configuration and status in step. All fields but those that say so are required.
type Controller struct {
	Cluster
	// Members divides the work; nil: this process has all of it.
	Members Members
	// UsageInterval is the interval between counts of the stored objects that use features; 0 stands for [DefaultUsageInterval], a
	// negative value means never.
	UsageInterval time.Duration

	Metrics  *Metrics
	Recorder record.EventRecorder
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
	want, stored object
	at           time.Time
}

// madeObjects lists all objects that the controller has made to enforce features.
func (s *session) madeObjects() (out []object) {
	for resource, i := range s.stores {
		if resource == validatingHooks || resource == mutatingHooks {
			continue
		}
		for _, o := range i.GetStore().List() {
			out = append(out, asObject(o))
		}
	}
	return out
}

// madeFor lists the objects that the controller has made for a component.
func (s *session) madeFor(component string) (out []object) {
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
			if made := asObject(o); made.GetLabels()[ManagedByLabel] == Manager {
				out = append(out, made)
			}
		}
	}
	return out
}

func (s *session) ownsComponent(key string) bool {
	return s.Members == nil || s.Members.Owns(Role, types.UID("component/"+key))
}

// workOff does what is due for the components in a queue until the queue is shut down. The work returns when to look again, 0 for not
// before something changes.
func (c *Cluster) workOff(ctx context.Context, queue workqueue.TypedDelayingInterface[string], failures workqueue.TypedRateLimiter[string],
	work func(ctx context.Context, component string) (again time.Duration, err error),
) {
	for {
		name, closed := queue.Get()
		if closed {
			return
		}
		again, err := c.workSafely(ctx, name, work)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			c.Log.Warn("a component is not in order yet", "component", name, "error", err)
			queue.AddAfter(name, shorterWait(again, failures.When(name)))
		default:
			failures.Forget(name)
			if again > 0 {
				queue.AddAfter(name, again)
			}
		}
		queue.Done(name)
	}
}

// workSafely calls work and turns a panic into an error, so that one component does not stop the others.
func (c *Cluster) workSafely(ctx context.Context, component string, work func(ctx context.Context, component string) (time.Duration, error)) (again time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			c.Log.Error("the work on a component panicked", "component", component, "panic", r, "stack", string(debug.Stack()))
			err = errors.New("the process failed: this is a mistake in it, and its log has more")
		}
	}()
	return work(ctx, component)
}

// shorterWait is the shorter of two waits; 0 stands for none.
func shorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// storedObject is the newest known stored object with the name of an object; nil if there is none.
//
// An own write counts until the watch has passed it: resource versions tell which of the two is newer.
func (s *session) storedObject(want object) object {
	i := s.stores[resourceOf(want)]
	if i == nil {
		return nil
	}
	o, ok, err := i.GetStore().GetByKey(want.GetName())
	if err != nil || !ok {
		return nil
	}
	seen := asObject(o)
	s.mu.Lock()
	own := s.applied[keyOf(want)].stored
	s.mu.Unlock()
	if own != nil && storedBefore(seen, own) {
		return own // the watch has not seen the write yet
	}
	return seen
}

// storedBefore reports whether a was stored before b.
func storedBefore(a, b object) bool {
	if a.GetUID() != b.GetUID() {
		return false
	}
	n, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && n < 0
}

// keyOf is the resource and the name of an object.
func keyOf(o object) string { return resourceOf(o) + "/" + o.GetName() }

// forgetApplied forgets an object that this process has written and now deleted.
func (s *session) forgetApplied(o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.applied, keyOf(o))
}

// recordApplied records a write. It reports whether the object is the same as the last one that this process wrote: then another
// client has changed or deleted it in between.
func (s *session) recordApplied(want, stored object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.applied[keyOf(want)]
	s.applied[keyOf(want)] = applied{want, stored, s.Clock.Now()}
	return known && sameAsWanted(want, before.want) && before.stored.GetResourceVersion() != stored.GetResourceVersion()
}

// tellSkew adds the condition to a list.
func (s *session) tellSkew(list *[]metav1.Condition, generation int64, c metav1.Condition) {
	setCondition(list, generation, s.Clock.Now(), v1alpha1.ConditionSkew, cmp.Or(c.Status, metav1.ConditionUnknown), cmp.Or(c.Reason, v1alpha1.ReasonNoReports), c.Message)
}

func setCondition(list *[]metav1.Condition, generation int64, now time.Time, conditionType string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(list, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: brief.Clip(message, maxMessage), ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
	})
}
