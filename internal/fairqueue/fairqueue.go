// Package fairqueue hands work out to a fixed number of workers so that no tenant keeps them all.
//
// It promises that tenants take turns, that each has its own work in order, and that one whose work hangs leaves slots to the
// others. It does not decide when work is due, or how often it is tried.
package fairqueue

import (
	"context"
	"slices"
	"sync"
)

// Queue hands out keys, each to one worker at a time, in turn by tenant and in order within one. A tenant may hold no more
// than its share of the slots, so that one whose work hangs leaves room for the others: with n tenants that have work, a
// tenant gets a new slot only while it holds fewer than slots/(n+1), and never fewer than one. It may be used concurrently.
type Queue[K comparable] struct {
	slots  int
	tenant func(K) string

	mu sync.Mutex
	// idle are the workers that wait, each at a channel that takes one key.
	idle []chan K
	// turn lists the tenants that have something waiting, the next one first.
	turn    []string
	waiting map[string][]K
	queued  map[K]bool
	running map[K]bool
	held    map[string]int
}

// New makes a queue for so many workers, at least two; tenant says whose a key is.
func New[K comparable](slots int, tenant func(K) string) *Queue[K] {
	return &Queue[K]{
		slots: max(slots, 2), tenant: tenant, waiting: map[string][]K{},
		queued: map[K]bool{}, running: map[K]bool{}, held: map[string]int{},
	}
}

// Add puts a key at the end unless it waits or runs already.
func (q *Queue[K]) Add(k K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queued[k] || q.running[k] {
		return
	}
	q.queued[k] = true
	whose := q.tenant(k)
	if len(q.waiting[whose]) == 0 {
		q.turn = append(q.turn, whose)
	}
	q.waiting[whose] = append(q.waiting[whose], k)
	q.wakeWorkers()
}

// Len counts the keys that wait.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queued)
}

// Forget drops a key that waits; one that runs is not touched.
func (q *Queue[K]) Forget(k K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.queued[k] {
		return
	}
	delete(q.queued, k)
	whose := q.tenant(k)
	q.waiting[whose] = slices.DeleteFunc(q.waiting[whose], func(o K) bool { return o == k })
	q.removeIfIdle(whose)
	// With a tenant less the shares of the others are larger.
	q.wakeWorkers()
}

// Get waits for a key; ok is false when ctx is done. The caller calls Done with it.
func (q *Queue[K]) Get(ctx context.Context) (k K, ok bool) {
	if ctx.Err() != nil {
		return k, false
	}
	q.mu.Lock()
	if k, ok = q.takeKey(); ok {
		q.mu.Unlock()
		return k, true
	}
	given := make(chan K, 1)
	q.idle = append(q.idle, given)
	q.mu.Unlock()
	select {
	case k = <-given:
		return k, true
	case <-ctx.Done():
	}
	q.mu.Lock()
	q.idle = slices.DeleteFunc(q.idle, func(c chan K) bool { return c == given })
	q.mu.Unlock()
	select {
	case k = <-given:
		// It was given away in this moment; the caller sees that ctx is done.
		return k, true
	default:
		return k, false
	}
}

// wakeWorkers gives keys to workers that wait: to as many as there are keys, the others sleep on.
func (q *Queue[K]) wakeWorkers() {
	for len(q.idle) > 0 {
		k, ok := q.takeKey()
		if !ok {
			return
		}
		last := len(q.idle) - 1
		q.idle[last] <- k
		q.idle = q.idle[:last]
	}
}

// takeKey takes the key whose turn it is; ok is false if none may run now. A tenant that gets a slot goes to the end of the turns.
// The caller holds the lock.
func (q *Queue[K]) takeKey() (k K, ok bool) {
	limit := max(q.slots/(q.activeTenants()+1), 1)
	for i, whose := range q.turn {
		if q.held[whose] >= limit {
			continue
		}
		k = q.waiting[whose][0]
		q.waiting[whose] = q.waiting[whose][1:]
		q.turn = append(slices.Delete(q.turn, i, i+1), whose)
		delete(q.queued, k)
		q.running[k] = true
		q.held[whose]++
		q.removeIfIdle(whose)
		return k, true
	}
	return k, false
}

// activeTenants counts the tenants that hold a slot or wait for one.
func (q *Queue[K]) activeTenants() int {
	n := len(q.held)
	for _, whose := range q.turn {
		if q.held[whose] == 0 {
			n++
		}
	}
	return n
}

// Done gives back the slot that a key of Get holds.
func (q *Queue[K]) Done(k K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.running, k)
	whose := q.tenant(k)
	if q.held[whose]--; q.held[whose] <= 0 {
		delete(q.held, whose)
	}
	q.wakeWorkers()
}

// removeIfIdle removes a tenant of whom nothing waits.
func (q *Queue[K]) removeIfIdle(whose string) {
	if len(q.waiting[whose]) == 0 {
		delete(q.waiting, whose)
		q.turn = slices.DeleteFunc(q.turn, func(o string) bool { return o == whose })
	}
}
