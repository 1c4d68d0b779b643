package resolution

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// key names one request for as long as it exists: another request of the same name has another UID.
type key struct {
	namespace, name string
	uid             types.UID
}

// queue hands out keys, each to one worker at a time, in turn by namespace and in order within one. A namespace may hold
// no more than its share of the slots, so that one whose servers hang leaves room for the others: with n namespaces that
// have work, a namespace gets a new slot only while it holds fewer than slots/(n+1).
type queue struct {
	slots int

	mu sync.Mutex
	// idle are the workers that wait, each at a channel that takes one key.
	idle []chan key
	// turn lists the namespaces that have something waiting, the next one first.
	turn    []string
	waiting map[string][]key
	queued  map[key]bool
	running map[key]bool
	held    map[string]int
}

func newQueue(slots int) *queue {
	return &queue{
		slots: max(slots, 2), waiting: map[string][]key{},
		queued: map[key]bool{}, running: map[key]bool{}, held: map[string]int{},
	}
}

// add puts a key at the end unless it waits or runs already.
func (q *queue) add(k key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queued[k] || q.running[k] {
		return
	}
	q.queued[k] = true
	if len(q.waiting[k.namespace]) == 0 {
		q.turn = append(q.turn, k.namespace)
	}
	q.waiting[k.namespace] = append(q.waiting[k.namespace], k)
	q.dispatch()
}

// forget drops a key that waits; one that runs is not touched.
func (q *queue) forget(k key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.queued[k] {
		return
	}
	delete(q.queued, k)
	q.waiting[k.namespace] = slices.DeleteFunc(q.waiting[k.namespace], func(o key) bool { return o == k })
	q.tidy(k.namespace)
	// With a namespace less the shares of the others are larger.
	q.dispatch()
}

// get waits for a key; ok is false when ctx is done. The caller calls done with it.
func (q *queue) get(ctx context.Context) (k key, ok bool) {
	if ctx.Err() != nil {
		return key{}, false
	}
	q.mu.Lock()
	if k, ok = q.take(); ok {
		q.mu.Unlock()
		return k, true
	}
	given := make(chan key, 1)
	q.idle = append(q.idle, given)
	q.mu.Unlock()
	select {
	case k = <-given:
		return k, true
	case <-ctx.Done():
	}
	q.mu.Lock()
	q.idle = slices.DeleteFunc(q.idle, func(c chan key) bool { return c == given })
	q.mu.Unlock()
	select {
	case k = <-given:
		// It was given away in this moment; the caller sees that ctx is done.
		return k, true
	default:
		return key{}, false
	}
}

// dispatch gives keys to workers that wait: to as many as there are keys, the others sleep on.
func (q *queue) dispatch() {
	for len(q.idle) > 0 {
		k, ok := q.take()
		if !ok {
			return
		}
		last := len(q.idle) - 1
		q.idle[last] <- k
		q.idle = q.idle[:last]
	}
}

func (q *queue) take() (key, bool) {
	limit := max(q.slots/(q.active()+1), 1)
	for i, ns := range q.turn {
		if q.held[ns] >= limit {
			continue
		}
		k := q.waiting[ns][0]
		q.waiting[ns] = q.waiting[ns][1:]
		q.turn = append(slices.Delete(q.turn, i, i+1), ns)
		delete(q.queued, k)
		q.running[k] = true
		q.held[ns]++
		q.tidy(ns)
		return k, true
	}
	return key{}, false
}

// active counts the namespaces that hold a slot or wait for one.
func (q *queue) active() int {
	n := len(q.held)
	for _, ns := range q.turn {
		if q.held[ns] == 0 {
			n++
		}
	}
	return n
}

func (q *queue) done(k key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.running, k)
	if q.held[k.namespace]--; q.held[k.namespace] <= 0 {
		delete(q.held, k.namespace)
	}
	q.dispatch()
}

// tidy removes a namespace in which nothing waits.
func (q *queue) tidy(ns string) {
	if len(q.waiting[ns]) == 0 {
		delete(q.waiting, ns)
		q.turn = slices.DeleteFunc(q.turn, func(o string) bool { return o == ns })
	}
}

// depth is how many keys wait, and how many run.
func (q *queue) depth() (waiting, running int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queued), len(q.running)
}
