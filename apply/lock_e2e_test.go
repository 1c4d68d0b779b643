//go:build e2e

package apply

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// TestE2EALockIsRenewedTakenOverAndFenced goes through the life of a lock whose holder renews it, dies without a word on a machine of
// which nothing is known, and comes back.
func TestE2EALockIsRenewedTakenOverAndFenced(t *testing.T) {
	kube, err := kubernetes.NewForConfig(shared.Get(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	ns, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "lock-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	applier := func(holder string, length time.Duration, patience time.Duration) *Applier {
		a, err := New(shared.Get(t).Config(), Options{
			Namespace: ns.Name, Now: time.Now, Holder: holder, LockTimeout: patience, Locks: &Locks{duration: length, process: "another machine"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	lease := func() string {
		l, err := kube.CoordinationV1().Leases(ns.Name).Get(t.Context(), InventoryName("x"), metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return ptr.Deref(l.Spec.HolderIdentity, "") + l.Spec.RenewTime.String()
	}
	v := &Inventory{App: "x", Namespace: ns.Name}
	// The first holder renews it, so that somebody who looks on for longer than it lasts does not get it.
	first := applier("first", 3*time.Second, 0)
	held, unlock, err := first.acquireLock(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	before := lease()
	second := applier("second", 3*time.Second, 4*time.Second)
	if _, _, err := second.acquireLock(t.Context(), v); !isLockedBy(err, "first") {
		t.Errorf("somebody got a lock that is renewed: %v", err)
	}
	if now := lease(); now == before {
		t.Error("it was not renewed")
	}
	if held.client.held.lost != nil || !held.client.held.isCertainlyHeld() {
		t.Errorf("the holder lost it: %v", held.client.held.lost)
	}
	// A renewal that the server takes while the run gives it up is a change that the run knows nothing of.
	if _, err := kube.CoordinationV1().Leases(ns.Name).Patch(t.Context(), InventoryName("x"), types.MergePatchType, []byte(`{"metadata":{"labels":{"late":"yes"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := kube.CoordinationV1().Leases(ns.Name).Get(t.Context(), InventoryName("x"), metav1.GetOptions{}); err == nil {
		t.Error("it is still there after it was released")
	}
	// A holder that does not renew, for it is stopped or cut off, loses the right to write before anybody gets the lock.
	stopped := &lock{
		client: first.client, locks: &Locks{duration: time.Second, process: "another machine"}, events: first.events, app: v.ownerMark(), identity: "stopped",
		list: listPath("coordination.k8s.io", "v1", "leases", ns.Name), path: listPath("coordination.k8s.io", "v1", "leases", ns.Name) + "/" + InventoryName("x"),
	}
	stopped.lease.APIVersion, stopped.lease.Kind, stopped.lease.Name = "coordination.k8s.io/v1", "Lease", InventoryName("x")
	if err := stopped.acquireWithin(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if !stopped.isCertainlyHeld() {
		t.Error("it is not held")
	}
	third := applier("third", time.Second, time.Minute)
	third, unlock, err = third.acquireLock(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	mine, stop := third.untilLost(t.Context())
	defer stop()
	if _, err := first.withLock(stopped).client.applyPatch(t.Context(), listPath("", "v1", "configmaps", ns.Name)+"/x", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`), false, false); !errors.Is(err, errLost) {
		t.Errorf("it wrote: %v", err)
	}
	if err := stopped.renewLease(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("it renewed what another one has: %v", err)
	}
	// Who deletes the Lease by hand and takes the lock ends the run of the holder.
	if err := kube.CoordinationV1().Leases(ns.Name).Delete(t.Context(), InventoryName("x"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, release, err := applier("fourth", time.Hour, time.Minute).acquireLock(t.Context(), v)
	if err != nil && !isLockedBy(err, "third") { // the third one may have made it anew
		t.Fatal(err)
	}
	if err == nil {
		select {
		case <-mine.Done():
		case <-time.After(time.Minute):
			t.Error("the third run goes on without its lock")
		}
		if cause := context.Cause(mine); !errors.Is(cause, errLost) {
			t.Errorf("%v", cause)
		}
	}
	release()
	unlock()
}

func isLockedBy(err error, holder string) bool {
	locked, ok := errors.AsType[*LockedError](err)
	return ok && locked.Holder[:len(holder)] == holder && errors.Is(err, ErrWaiting)
}
