package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/apply"
	"sluice.dev/internal/brief"
)

// This file deletes what was delivered when a delivery is deleted, if its policy says so. With another policy, the objects and the
// inventory stay, and sluice delete can remove them later.

// A delivery with deletionPolicy Delete has a finalizer: its objects are deleted before the delivery is. The controller tries for
// spec.timeout. After that, the remaining objects and the inventory stay, and the delivery is deleted, so that nothing blocks it
// for ever.

// setFinalizer adds or removes the finalizer of a delivery.
//
// The patch has the resource version that was read: another write in between is a conflict. d gets the new version, so that its
// status can be written next.
func (c *client) setFinalizer(ctx context.Context, d *v1alpha1.Delivery, want bool) error {
	if slices.Contains(d.Finalizers, v1alpha1.FinalizerDelivery) == want {
		return nil
	}
	list := slices.DeleteFunc(slices.Clone(d.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerDelivery })
	if want {
		list = append(list, v1alpha1.FinalizerDelivery)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": d.ResourceVersion, "finalizers": list}})
	if err != nil {
		return err
	}
	var now v1alpha1.Delivery
	if err := c.rest.Patch(types.MergePatchType).Namespace(d.Namespace).Resource(resource).Name(d.Name).Body(patch).Do(ctx).Into(&now); err != nil {
		return err
	}
	d.Finalizers, d.ResourceVersion = now.Finalizers, now.ResourceVersion
	return nil
}

// finalizeDelivery deletes the objects of a delivery, if its policy says so, and then releases the delivery. It returns when to
// continue.
func (r *run) finalizeDelivery(process context.Context) time.Duration {
	if !slices.Contains(r.d.Finalizers, v1alpha1.FinalizerDelivery) {
		return 0
	}
	why := ""
	if r.d.Spec.DeletionPolicy == v1alpha1.DeletionDelete {
		left := r.d.DeletionTimestamp.Add(r.applyTimeout()).Sub(r.now)
		ctx, cancel := context.WithTimeoutCause(process, max(left, time.Second), errTimeout)
		defer cancel()
		kept, err := r.deleteAll(ctx)
		switch {
		case process.Err() != nil:
			return 0
		case err != nil && left > 0:
			message := "deleting what was delivered: " + err.Error()
			r.setCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, message)
			return min(r.retryPause(keyOf(r.d), lastRetry), lastWait, left)
		case err != nil:
			why = "spec.timeout is over: " + err.Error()
		case len(kept) > 0:
			why = strings.Join(kept, "; ")
		}
	}
	if why != "" {
		r.Recorder.Event(r.d, corev1.EventTypeWarning, v1alpha1.ReasonDeletionIncomplete, brief.Clip(
			fmt.Sprintf("not all that was delivered is deleted; sluice delete %s -n %s goes on: %s", r.d.Name, r.d.Namespace, why), maxEvent))
	}
	if err := r.api.setFinalizer(process, r.d, false); err != nil && !apierrors.IsNotFound(err) {
		if apierrors.IsConflict(err) {
			return firstRetry
		}
		return r.retryAfter(process, keyOf(r.d), "cannot let a delivery go", err)
	}
	return 0
}

// deleteAll deletes the delivered objects, and returns a sentence about those that stay.
//
// Objects in namespaces and CRDs that would take along what is not the delivery's are among those that stay. A delivery that has
// delivered nothing has none.
func (r *run) deleteAll(ctx context.Context) (kept []string, err error) {
	a, unlock, err := r.resumedApplier(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	d, err := a.PlanDeletion(ctx, apply.DeletionRequest{App: r.d.Name, Namespace: r.d.Namespace, KeepProtected: true, Patience: patience})
	if errors.Is(err, apply.ErrNoApp) {
		return nil, nil // nothing was delivered, or it is deleted already
	}
	if err != nil {
		return nil, err
	}
	if err := a.Delete(ctx, d); err != nil {
		return nil, err
	}
	for i := range d.Removals {
		if it := &d.Removals[i]; it.Action == apply.Keep {
			kept = append(kept, fmt.Sprintf("%s: %s", it.ID, it.Reason))
		}
	}
	return kept, nil
}
