package requester

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/api/resolution/v1beta1"
)

// Handler returns an event handler for an informer of requests. It calls enqueue for each owner of the kind, controllers and
// others, when their request has ended or was deleted. At the start of the informer it also calls enqueue for requests that have
// ended before. The version of the kind does not matter.
func Handler(owner schema.GroupKind, enqueue func(types.NamespacedName)) cache.ResourceEventHandler {
	tell := func(o any) {
		r, ok := o.(*v1beta1.ResolutionRequest)
		if !ok {
			return
		}
		for _, ref := range r.OwnerReferences {
			if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && gv.Group == owner.Group && ref.Kind == owner.Kind {
				enqueue(types.NamespacedName{Namespace: r.Namespace, Name: ref.Name})
			}
		}
	}
	ended := func(o any) bool {
		r, ok := o.(*v1beta1.ResolutionRequest)
		return ok && r.Status.Finished()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if ended(o) {
				tell(o)
			}
		},
		UpdateFunc: func(before, after any) {
			// A new owner of an ended request has missed its end.
			if ended(after) && (!ended(before) || newOwner(before, after)) {
				tell(after)
			}
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			tell(o)
		},
	}
}

// newOwner reports whether an update has added an owner, which happens to shared requests.
func newOwner(before, after any) bool {
	a, okA := before.(metav1.Object)
	b, okB := after.(metav1.Object)
	return okA && okB && len(b.GetOwnerReferences()) > len(a.GetOwnerReferences())
}
