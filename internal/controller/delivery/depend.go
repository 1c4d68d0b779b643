package delivery

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
)

// A delivery can wait for others: spec.dependsOn names them. It waits until they are ready with their present specs. A circle would
// wait for ever, so it is reported as one. For example: a depends on b, and b on a; both say so in the condition Ready, with the
// reason DependencyCycle.

// isReady reports whether a delivery is ready with its present spec.
func isReady(d *v1alpha1.Delivery) bool {
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == d.Generation
}

// waitsFor says why the deliveries that d depends on hold it back; both are empty if they do not. find looks a delivery
// up; nil if there is none.
func waitsFor(d *v1alpha1.Delivery, find func(types.NamespacedName) *v1alpha1.Delivery) (reason, message string) {
	for _, ref := range d.Spec.DependsOn {
		k := referenceKey(d, ref)
		other := find(k)
		switch {
		case other == nil:
			return v1alpha1.ReasonDependencyNotReady, fmt.Sprintf("waits for the delivery %s, which does not exist", k)
		case isReady(other):
		case reachesDelivery(other, keyOf(d), find):
			return v1alpha1.ReasonDependencyCycle, fmt.Sprintf("depends on the delivery %s, which depends on this one: take one of the two out of dependsOn", k)
		default:
			return v1alpha1.ReasonDependencyNotReady, fmt.Sprintf("waits for the delivery %s, which is not ready", k)
		}
	}
	return "", ""
}

// reachesDelivery reports whether from depends on target, directly or through others.
//
// It looks at each delivery once, so a circle of others ends the search as well.
func reachesDelivery(from *v1alpha1.Delivery, target types.NamespacedName, find func(types.NamespacedName) *v1alpha1.Delivery) bool {
	seen := map[types.NamespacedName]bool{keyOf(from): true}
	todo := []*v1alpha1.Delivery{from}
	for len(todo) > 0 {
		d := todo[0]
		todo = todo[1:]
		for _, ref := range d.Spec.DependsOn {
			k := referenceKey(d, ref)
			if k == target {
				return true
			}
			if other := find(k); other != nil && !seen[k] {
				seen[k] = true
				todo = append(todo, other)
			}
		}
	}
	return false
}

// cachedDelivery looks a delivery up in the cache.
func (c *Controller) cachedDelivery(k types.NamespacedName) *v1alpha1.Delivery {
	o, ok, err := c.informer.GetStore().GetByKey(k.String())
	if d, isDelivery := o.(*v1alpha1.Delivery); err == nil && ok && isDelivery {
		return d
	}
	return nil
}
