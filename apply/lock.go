package apply

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"sluice.dev/internal/cluster"
)

// A run that changes an app holds the app's lock from before its first write until after its last one. The lock is a Lease in the
// app's namespace, with the name of the inventory. The holder renews it. A holder that cannot renew stops writing before anybody
// may take the lock over; see [lock.isCertainlyHeld].
//
// A Lease is stale in two cases. Another process has watched it for its whole duration and saw no renewal; this does not depend on
// the clocks of other machines, as in k8s.io/client-go/tools/leaderelection. Or its holder was a process of this machine that has
// ended.

// annotationProcess on a lock identifies the process that holds it, for other processes of the same machine.
const annotationProcess = "sluice.dev/process"

// errLost ends the writes of a run whose lock is, or may be, taken by somebody else. errLate is the reason if no request has failed.
var (
	errLost = errors.New("the lock of the app is lost")
	errLate = errors.New("no renewal was answered in time")
)

// LockedError means that somebody else is changing the app. The call has changed nothing, and can be repeated later. The error
// wraps [ErrWaiting].
type LockedError struct {
	// App is NAMESPACE/NAME. Holder names the holder of the lock. Since is the time when the holder got it, by the holder's clock.
	App, Holder string
	Since       time.Time
}

// Error implements error.
func (e *LockedError) Error() string {
	return fmt.Sprintf("app %s is being changed by %s since %s", e.App, e.Holder, e.Since.UTC().Format(time.RFC3339))
}

// Is makes a [LockedError] match [ErrWaiting]: callers handle both alike.
func (e *LockedError) Is(target error) bool { return target == ErrWaiting }

// isLeaseStale reports whether a Lease is stale.
func (l *Locks) isLeaseStale(path string, lease *coordinationv1.Lease) bool {
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || hasEnded(lease.Annotations[annotationProcess]) {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[string]sighting{}
	}
	s := l.seen[path]
	if s.version != lease.ResourceVersion {
		s = sighting{lease.ResourceVersion, leaseClock()}
		l.seen[path] = s
	}
	return time.Since(s.at) >= l.lockLength()
}

func (l *Locks) forgetSighting(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, path)
}

// lock is a lock that this run holds, or tries to get.
type lock struct {
	client   *client
	locks    *Locks
	events   *events
	app      string // NAMESPACE/NAME
	list     string // path of the Leases
	path     string
	identity string

	mu      sync.Mutex
	lease   coordinationv1.Lease // as last written
	renewed time.Time            // when the last renewal that succeeded was sent
	lost    error                // why it is lost; nil while it is not
	users   []context.CancelCauseFunc
}

// isCertainlyHeld reports whether this run certainly holds the lock. It becomes false when two thirds of the duration are over, a
// third before others may take the lock over. That leaves time for a request that was just sent. The wall clock is compared as well,
// because the monotonic clock may stand still while the machine sleeps.
func (l *lock) isCertainlyHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := l.locks.lockLength() * 2 / 3
	return time.Since(l.renewed) < most && leaseClock().Round(0).Sub(l.renewed.Round(0)) < most
}

// markLost ends the work of all who use the lock.
func (l *lock) markLost(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = fmt.Errorf("app %s: %w", l.app, err)
	for _, end := range l.users {
		end(l.lost)
	}
}

// untilLost returns a context that ends when the applier's lock is lost, if it has one. The caller must always call stop.
func (a *Applier) untilLost(ctx context.Context) (during context.Context, stop func()) {
	l := a.client.held
	if l == nil {
		return ctx, func() {}
	}
	during, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users = append(l.users, cancel)
	if l.lost != nil {
		cancel(l.lost)
	}
	return during, func() { cancel(nil) }
}

// withLock returns an applier that writes only while it holds the lock.
func (a *Applier) withLock(l *lock) *Applier {
	locked, c := *a, *a.client
	c.held = l
	locked.client = &c
	return &locked
}

// acquireLock gets the lock of an app, unless the applier already has it. It waits for Options.LockTimeout at most. The returned
// applier refuses writes when the lock is lost. The caller must always call unlock. The error may be a [*LockedError].
func (a *Applier) acquireLock(ctx context.Context, v *Inventory) (locked *Applier, unlock func(), err error) {
	if held := a.client.held; held != nil && held.app == v.ownerMark() {
		return a, func() {}, nil
	}
	l := &lock{
		client: a.client, locks: a.opts.Locks, events: a.events, app: v.ownerMark(),
		list: listPath("coordination.k8s.io", "v1", "leases", v.Namespace), identity: cmp.Or(a.opts.Holder, whoami()) + " (" + rand.Text()[:8] + ")",
	}
	l.path = l.list + "/" + InventoryName(v.App)
	l.lease.APIVersion, l.lease.Kind = "coordination.k8s.io/v1", "Lease"
	l.lease.Namespace, l.lease.Name = v.Namespace, InventoryName(v.App)
	if err := l.acquireWithin(ctx, a.opts.LockTimeout); err != nil {
		return a, func() {}, err
	}
	renewing, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.renewUntilDone(renewing)
	}()
	return a.withLock(l), func() {
		cancel()
		<-done
		l.releaseLease(ctx)
	}, nil
}

// Resume gets the lock of an app whose last run is not complete. Make and carry out the plan with the returned applier, which holds
// the lock: then nobody changes the app between the plan and its end; see [ErrChanged]. If the last run is complete or there was none,
// Resume returns the same applier: then [Applier.Apply] and [Applier.Delete] get the lock themselves. When the lock is lost, they stop
// with an error. The caller must always call unlock, after which the returned applier refuses to write.
func (a *Applier) Resume(ctx context.Context, namespace, app string) (locked *Applier, unlock func(), err error) {
	v, err := a.client.loadInventory(ctx, cmp.Or(namespace, a.opts.Namespace), app)
	if err != nil || !v.wasInterrupted() {
		return a, func() {}, err
	}
	return a.lockExisting(ctx, v)
}

// lockExisting gets the lock of an app that has an inventory. If the namespace is being deleted, there is no lock: the server
// refuses new objects there, from everybody.
func (a *Applier) lockExisting(ctx context.Context, v *Inventory) (locked *Applier, unlock func(), err error) {
	if locked, unlock, err = a.acquireLock(ctx, v); apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return a, func() {}, nil
	}
	return locked, unlock, err
}

// lockPlanned gets a lock, by get, for a plan that was made from an inventory. If another run was not complete at that time, and
// the lock was not held yet, the plan may be out of date.
func (a *Applier) lockPlanned(ctx context.Context, v *Inventory, get func(context.Context, *Inventory) (*Applier, func(), error)) (locked *Applier, unlock func(), err error) {
	locked, unlock, err = get(ctx, v)
	if err == nil && locked != a && v.wasInterrupted() {
		err = fmt.Errorf("app %s: %w", v.ownerMark(), ErrChanged)
	}
	return locked, unlock, err
}

// wasInterrupted reports whether the last run is not complete. It may still be running.
func (v *Inventory) wasInterrupted() bool {
	return v.resourceVersion != "" && v.State != Applied
}

// acquireWithin tries to get the lock until it succeeds or the time is over.
func (l *lock) acquireWithin(ctx context.Context, most time.Duration) error {
	begun, told := leaseClock(), ""
	again, from := firstReminder, leaseClock()
	for pause := firstPause; ; pause = min(pause*3/2, time.Second) {
		held, err := l.tryAcquire(ctx)
		if err != nil || held == nil {
			return err
		}
		locked := &LockedError{App: l.app, Holder: ptr.Deref(held.Spec.HolderIdentity, ""), Since: ptr.Deref(held.Spec.AcquireTime, metav1.MicroTime{}).Time}
		if time.Since(begun) >= most {
			return locked
		}
		if told != locked.Holder {
			told = locked.Holder
			l.events.notifyObserver(Event{Note: "waiting: " + locked.Error()})
		} else if time.Since(from) >= again {
			l.events.notifyObserver(Event{Note: "still waiting: " + locked.Error()})
			again, from = min(2*again, lastReminder), leaseClock()
		}
		if err := cluster.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("%w: %w", err, locked)
		}
	}
}

// tryAcquire tries once to get the lock. It returns the Lease of another holder; nil if this run holds the lock.
//
// A held Lease is taken over by an update with its resource version, so of two runs that find it stale one gets it. After a conflict
// the Lease is read again: the answer to an earlier try of this run may have been lost.
func (l *lock) tryAcquire(ctx context.Context) (*coordinationv1.Lease, error) {
	held, err := l.readLease(ctx)
	if err != nil {
		return nil, err
	}
	verb, path := http.MethodPost, l.list
	l.lease.ResourceVersion, l.lease.UID = "", ""
	transitions := int32(0)
	if held != nil {
		if ptr.Deref(held.Spec.HolderIdentity, "") != l.identity && !l.locks.isLeaseStale(l.path, held) {
			return held, nil
		}
		verb, path = http.MethodPut, l.path
		l.lease.ResourceVersion, l.lease.UID = held.ResourceVersion, held.UID
		transitions = ptr.Deref(held.Spec.LeaseTransitions, 0) + 1
	}
	now, seconds := metav1.NewMicroTime(leaseClock()), int32(max(l.locks.lockLength()/time.Second, 1)) //nolint:gosec // some seconds
	l.lease.Annotations = map[string]string{annotationProcess: cmp.Or(l.locks.process, thisProcess())}
	l.lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &l.identity, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now, LeaseTransitions: &transitions,
	}
	switch err := l.writeLease(ctx, verb, path); {
	case err == nil:
		if held != nil && ptr.Deref(held.Spec.HolderIdentity, "") != "" {
			l.events.notifyObserver(Event{Note: l.takeoverNote(held)})
		}
		l.locks.forgetSighting(l.path)
		return nil, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), held != nil && apierrors.IsNotFound(err):
		// Another run was faster, or the answer to this very request was lost. The next attempt shows which.
		if held, err = l.readLease(ctx); err == nil && held == nil {
			held = &coordinationv1.Lease{}
		}
		return held, err
	default:
		return nil, l.wrapLockError(err)
	}
}

// takeoverNote says from whom this run has taken the lock, and why. A holder that does not renew may only be stopped, or cut off.
func (l *lock) takeoverNote(held *coordinationv1.Lease) string {
	why := fmt.Sprintf("which has not renewed it for %s", l.locks.lockLength())
	if hasEnded(held.Annotations[annotationProcess]) {
		why = "which has ended"
	}
	return fmt.Sprintf("took the lock of app %s over from %s, %s", l.app, ptr.Deref(held.Spec.HolderIdentity, ""), why)
}

// wrapLockError adds the subject to an error, and the rights that are needed.
func (l *lock) wrapLockError(err error) error {
	if apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fmt.Errorf("the lock of app %s: the rights to get, create, update and delete leases.coordination.k8s.io in its namespace are needed: %w", l.app, err)
	}
	return fmt.Errorf("the lock of app %s: %w", l.app, err)
}

// readLease reads the Lease; nil if there is none.
func (l *lock) readLease(ctx context.Context) (*coordinationv1.Lease, error) {
	held := &coordinationv1.Lease{}
	err := sendJSON(ctx, l.client.sendOnce, request{verb: http.MethodGet, path: l.path}, nil, held)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, l.wrapLockError(err)
	}
	return held, nil
}

// writeLease writes the Lease. It does not wait for other requests of the run, because renewals must not be late.
func (l *lock) writeLease(ctx context.Context, verb, path string) error {
	sent := leaseClock()
	var now coordinationv1.Lease
	if err := sendJSON(ctx, l.client.sendOnce, request{verb: verb, path: path, apart: true}, &l.lease, &now); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease.ResourceVersion, l.lease.UID, l.renewed = now.ResourceVersion, now.UID, sent
	return nil
}

// renewUntilDone renews the lock until ctx ends or the lock is lost.
func (l *lock) renewUntilDone(ctx context.Context) {
	for {
		if err := cluster.Sleep(ctx, l.locks.lockLength()/6); err != nil {
			return
		}
		l.mu.Lock()
		left := l.locks.lockLength()*2/3 - time.Since(l.renewed)
		l.mu.Unlock()
		within, cancel := context.WithTimeout(ctx, max(left, time.Millisecond))
		err := l.renewLease(within)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errLost):
			l.markLost(err)
			return
		case !l.isCertainlyHeld():
			if err == nil {
				err = errLate
			}
			l.markLost(fmt.Errorf("%w: it cannot be renewed: %w", errLost, err))
			return
		}
	}
}

// renewLease renews the lock once.
//
// If the Lease is gone, it is created again, unless its namespace is gone too: then no other run can get a lock there. A Lease that
// another run holds ends this one.
func (l *lock) renewLease(ctx context.Context) error {
	now := metav1.NewMicroTime(leaseClock())
	l.lease.Spec.RenewTime = &now
	err := l.writeLease(ctx, http.MethodPut, l.path)
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return err
	}
	held, err := l.readLease(ctx)
	if err != nil {
		return err
	}
	if held == nil {
		// The Lease was deleted, alone or with its namespace.
		l.lease.ResourceVersion, l.lease.UID = "", ""
		err := l.writeLease(ctx, http.MethodPost, l.list)
		if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.renewed = now.Time // nobody else can get a lock there either
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if held, err = l.readLease(ctx); err != nil || held == nil {
			return err
		}
	}
	if holder := ptr.Deref(held.Spec.HolderIdentity, ""); holder != l.identity {
		return fmt.Errorf("%w: %s has it", errLost, holder)
	}
	l.lease.ResourceVersion, l.lease.UID = held.ResourceVersion, held.UID
	return l.writeLease(ctx, http.MethodPut, l.path)
}

// releaseLease deletes the Lease if this run still holds it, after which the lock is held no more. If that fails, the Lease expires.
func (l *lock) releaseLease(ctx context.Context) {
	l.mu.Lock()
	l.renewed = time.Time{}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.locks.lockLength()/3)
	defer cancel()
	if err := l.deleteLease(ctx); !apierrors.IsConflict(err) {
		return
	}
	// The server may have taken a renewal that was given up when the run ended.
	if held, err := l.readLease(ctx); err == nil && held != nil && ptr.Deref(held.Spec.HolderIdentity, "") == l.identity {
		l.lease.ResourceVersion = held.ResourceVersion
		_ = l.deleteLease(ctx)
	}
}

// deleteLease deletes the Lease as it was last written.
func (l *lock) deleteLease(ctx context.Context) error {
	if l.lease.ResourceVersion == "" {
		return nil
	}
	o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &l.lease.ResourceVersion}}
	o.APIVersion, o.Kind = "v1", "DeleteOptions"
	return sendJSON(ctx, l.client.sendOnce, request{verb: http.MethodDelete, path: l.path, apart: true}, o, nil)
}

// whoami describes this process for people.
func whoami() string {
	name := fmt.Sprintf("uid %d", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	return fmt.Sprintf("%s on %s, process %d", name, host, os.Getpid())
}

// asErrChanged replaces an error about an inventory that is not the plan's by [ErrChanged].
func asErrChanged(err error) error {
	if errors.Is(err, ErrConcurrent) {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return err
}
