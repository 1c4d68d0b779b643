package features

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/policy"
	"sluice.dev/internal/brief"
)

const (
	defaultWorkers = 4
	// pause is the time after a write of policies before the next settings are written into them, so that a series of changes causes only
	// a few writes.
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
	// Workers bounds the components that are processed at once; 0 stands for 4.
	Workers int
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
	want, stored runtime.Object
	at           time.Time
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

func (s *session) ownsComponent(key string) bool {
	return s.Members == nil || s.Members.Owns(Role, types.UID("component/"+key))
}

// shorterWait is the shorter of two waits; 0 stands for none.
func shorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
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

// isAnchor reports whether an object only keeps the API server watching the settings.
func isAnchor(o runtime.Object) bool {
	m, err := meta.Accessor(o)
	return err == nil && policy.IsAnchor(m.GetName())
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
