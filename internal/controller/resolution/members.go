package resolution

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Several processes can have the same role. Each request belongs to one of them, without a leader and without messages: every process
// computes the owner from the list of live processes and the UID of the request. When a process goes, only its share moves. For
// example, with three replicas a third of the requests has another owner after one of them has ended, and the other two thirds keep
// theirs.

const (
	memberLabel     = "sluice.dev/member"
	rolesAnnotation = "sluice.dev/roles"
	leasePrefix     = "sluice-member-"
	// forgetAfter is the number of lease durations after which the Lease of a process that is gone is deleted.
	forgetAfter = 40
)

// TroubleAnnotation is the annotation of a Lease that says what its process suffers from; sluice doctor prints it.
const TroubleAnnotation = "sluice.dev/trouble"

// Members knows the processes that share the work. Each process keeps one Lease. Rendezvous hashing divides the requests among the
// processes that renew theirs. The times in Leases are never compared with the local clock: a process is alive while its Lease
// keeps changing.
//
// For a moment two processes may believe that they own the same request. That only duplicates work.
type Members struct {
	Kube      kubernetes.Interface
	Namespace string
	// ID names this process; it must be unique, and valid in the name of an object.
	ID string
	// Roles are the roles of this process. The name of its Lease begins with the first, which an admission policy checks.
	Roles []string
	Clock clock.WithTicker
	Log   *slog.Logger

	mu       sync.Mutex
	seen     map[string]*member
	alive    map[string][]string // IDs by role, sorted
	onChange []func()
	// trouble is nil until there was some.
	trouble *string
}

type member struct {
	roles   []string
	version string
	changed time.Time
	last    time.Duration
}

// leaseDuration is the time after its last renewal at which a process counts as gone.
const leaseDuration = 6 * time.Second

// OnChange registers f to be called after every change of the members.
func (m *Members) OnChange(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onChange = append(m.onChange, f)
}

// Owns reports whether this process is the one to work on the object in that role. A nil Members owns all.
func (m *Members) Owns(role string, uid types.UID) bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	others := m.alive[role]
	m.mu.Unlock()
	self := m.selfName()
	return ownerOf(others, self, uid) == self
}

// selfName is the name of this process for the others: the name of its Lease after the prefix.
func (m *Members) selfName() string {
	if len(m.Roles) == 0 || strings.HasPrefix(m.ID, m.Roles[0]+"-") || strings.HasPrefix(m.ID, "sluice-"+m.Roles[0]+"-") {
		return m.ID
	}
	return m.Roles[0] + "-" + m.ID
}

// ownerOf returns the process with the highest weight for the object, out of the members and self.
func ownerOf(members []string, self string, uid types.UID) string {
	best, top := self, ownerWeight(self, uid)
	for _, id := range members {
		if w := ownerWeight(id, uid); w > top || (w == top && id > best) {
			best, top = id, w
		}
	}
	return best
}

// ownerWeight is the weight of a process for an object: the highest owns it (rendezvous hashing). It depends on nothing but the two
// names.
func ownerWeight(id string, uid types.UID) uint64 {
	h := fnv.New64a()
	// A hash never fails to write.
	_, _ = fmt.Fprintf(h, "%s/%s", id, uid)
	// FNV's high bits depend little on the last bytes: mix them (the finaliser of splitmix64).
	x := h.Sum64()
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// Count returns the number of processes with the role, this one included.
func (m *Members) Count(role string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.alive[role])
	if !slices.Contains(m.alive[role], m.selfName()) {
		n++
	}
	return n
}

// Alive returns the number of processes that are known to have the role.
func (m *Members) Alive(role string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.alive[role])
}

// AliveRoles are the roles that some process is known to have.
func (m *Members) AliveRoles() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.alive))
}

// SetTrouble says in the Lease what this process suffers from, for sluice doctor; empty for nothing.
func (m *Members) SetTrouble(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trouble = &text
}

// leaseAnnotations are the annotations of the Lease.
func (m *Members) leaseAnnotations() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]string{rolesAnnotation: strings.Join(m.Roles, ",")}
	if m.trouble != nil {
		out[TroubleAnnotation] = *m.trouble
	}
	return out
}

// Join makes the Lease and reads those of the others, so that Owns is right from the start.
func (m *Members) Join(ctx context.Context) error {
	if err := m.renewLease(ctx); err != nil {
		return fmt.Errorf("cannot keep a Lease in namespace %s: %w", m.Namespace, err)
	}
	return m.readLeases(ctx)
}

// Run keeps the Lease until ctx is done, and then deletes it so that the others take over at once.
func (m *Members) Run(ctx context.Context) {
	tick := m.Clock.NewTicker(leaseDuration / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			m.deleteLease(context.WithoutCancel(ctx))
			return
		case <-tick.C():
		}
		if err := m.renewLease(ctx); err != nil && ctx.Err() == nil {
			m.Log.Warn("cannot renew the Lease of this process", "error", err)
		}
		if err := m.readLeases(ctx); err != nil && ctx.Err() == nil {
			m.Log.Warn("cannot see which other processes are there", "error", err)
		}
	}
}

func (m *Members) leaseName() string { return leasePrefix + m.selfName() }

// mayTidy reports whether this process may delete the Lease of another one that is gone. It may for its own roles, and for all roles
// if it runs the lifecycle controller.
func (m *Members) mayTidy(roles []string) bool {
	return slices.Contains(m.Roles, LifecycleRole) || !slices.ContainsFunc(roles, func(r string) bool { return !slices.Contains(m.Roles, r) })
}

// renewLease writes the Lease of this process with the present time, and makes it if it is missing. A renewal that takes longer than
// the Lease lasts is given up, since the others count this process as gone by then.
func (m *Members) renewLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseDuration)
	defer cancel()
	now := metav1.NewMicroTime(m.Clock.Now())
	seconds := int32(min(max(leaseDuration/time.Second, 1), math.MaxInt32))
	leases := m.Kube.CoordinationV1().Leases(m.Namespace)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.leaseName(), Labels: map[string]string{memberLabel: "true", "app.kubernetes.io/part-of": "sluice"},
			Annotations: m.leaseAnnotations(),
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &m.ID, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	// No other process writes this Lease, so there is no version to respect; an update would need one.
	patch, err := json.Marshal(lease)
	if err != nil {
		return err
	}
	_, err = leases.Patch(ctx, lease.Name, mergePatch, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	return err
}

func (m *Members) deleteLease(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaseDuration)
	defer cancel()
	if err := m.Kube.CoordinationV1().Leases(m.Namespace).Delete(ctx, m.leaseName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		m.Log.Warn("cannot delete the Lease of this process; the others notice its end later", "error", err)
	}
}

// readLeases reads all Leases and reports changes.
//
// A process counts as gone when its Lease has not changed for as long as the Lease says, by the clock of this process. Its Lease
// stays for a while, since it tells operators who has ended, and is then deleted.
func (m *Members) readLeases(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseDuration)
	defer cancel()
	// From the API server's cache: seeing a Lease a moment later is good enough.
	list, err := m.Kube.CoordinationV1().Leases(m.Namespace).List(ctx, metav1.ListOptions{LabelSelector: memberLabel + "=true", ResourceVersion: "0"})
	if err != nil {
		return err
	}
	now, self := m.Clock.Now(), m.selfName()
	var gone []string
	m.mu.Lock()
	seen := map[string]*member{}
	alive := map[string][]string{}
	for i := range list.Items {
		l := &list.Items[i]
		id := strings.TrimPrefix(l.Name, leasePrefix)
		e := m.seen[id]
		if e == nil || e.version != l.ResourceVersion {
			e = &member{version: l.ResourceVersion, changed: now, last: leaseDuration, roles: strings.Split(l.Annotations[rolesAnnotation], ",")}
			if s := l.Spec.LeaseDurationSeconds; s != nil && *s > 0 && *s < 3600 {
				e.last = time.Duration(*s) * time.Second
			}
		}
		seen[id] = e
		switch age := now.Sub(e.changed); {
		case id == self || age <= e.last:
			for _, r := range e.roles {
				alive[r] = append(alive[r], id)
			}
		case age > forgetAfter*e.last && m.mayTidy(e.roles):
			gone = append(gone, l.Name)
		}
	}
	for _, ids := range alive {
		slices.Sort(ids)
	}
	changed := !maps.EqualFunc(alive, m.alive, slices.Equal)
	m.seen, m.alive = seen, alive
	tell := slices.Clone(m.onChange)
	m.mu.Unlock()
	for _, name := range gone {
		if err := m.Kube.CoordinationV1().Leases(m.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			m.Log.Warn("cannot delete the Lease of a process that is gone", "lease", name, "error", err)
		}
	}
	if changed {
		for _, f := range tell {
			f()
		}
	}
	return nil
}
