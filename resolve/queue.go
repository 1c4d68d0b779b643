package resolve

import (
	"container/list"
	"context"
	"sync"
)

// queue gives out the right to fetch: so many at once overall, per tenant and per host. Tenants take turns, and within a
// tenant hosts do, so that one who waits for what hangs holds up nobody else. A fetch for which several tenants wait stands
// in the lines of all of them.
type queue struct {
	limits Limits

	mu      sync.Mutex
	running int
	// leaving is how many of those that run have lost their place and have not left it yet.
	leaving int
	hosts   map[string]int
	tenants map[string]*tenant
	turns   list.List // of *tenant that have somebody waiting
}

type tenant struct {
	name    string
	running int
	waiting int
	lines   map[string]*lineOf
	turns   list.List // of *lineOf that are not empty
	turn    *list.Element
}

// lineOf is who waits for one host.
type lineOf struct {
	host    string
	tickets list.List // of *ticket
	turn    *list.Element
}

// ticket is a place in line, in those of several tenants if need be.
type ticket struct {
	host    string
	ready   chan struct{}
	granted *tenant
	leaving bool
	places  map[string]*list.Element // by tenant
	gone    bool
}

func newQueue(l Limits) *queue {
	return &queue{limits: l, hosts: map[string]int{}, tenants: map[string]*tenant{}}
}

func newTicket(host string) *ticket {
	return &ticket{host: host, ready: make(chan struct{}), places: map[string]*list.Element{}}
}

// resize changes the limits; what runs goes on.
func (q *queue) resize(l Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limits = l
	q.dispatch()
}

// enter puts a ticket in the line of a tenant; false if that is full.
func (q *queue) enter(t *ticket, name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.granted != nil || t.gone || t.places[name] != nil {
		return true
	}
	ten := q.tenants[name]
	if ten == nil {
		ten = &tenant{name: name, lines: map[string]*lineOf{}}
		q.tenants[name] = ten
	}
	if ten.waiting >= q.limits.Queued {
		return false
	}
	l := ten.lines[t.host]
	if l == nil {
		l = &lineOf{host: t.host}
		ten.lines[t.host] = l
		l.turn = ten.turns.PushBack(l)
	}
	t.places[name] = l.tickets.PushBack(t)
	if ten.waiting++; ten.waiting == 1 {
		ten.turn = q.turns.PushBack(ten)
	}
	q.dispatch()
	return true
}

// await waits until the ticket's turn comes. The function gives the right back; it must be called once.
func (q *queue) await(ctx context.Context, t *ticket) (release func(), err error) {
	select {
	case <-t.ready:
		return func() { q.release(t) }, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	granted := t.granted != nil
	t.gone = true
	q.leave(t)
	q.mu.Unlock()
	if granted {
		q.release(t)
	}
	return nil, context.Cause(ctx)
}

func (q *queue) release(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.leaving {
		q.leaving--
	}
	q.take(t, t.granted, -1)
	q.forget(t.granted)
	q.dispatch()
}

// take gives a place to a ticket, or takes it back where n is -1.
func (q *queue) take(t *ticket, ten *tenant, n int) {
	q.running += n
	ten.running += n
	if q.hosts[t.host] += n; q.hosts[t.host] == 0 {
		delete(q.hosts, t.host)
	}
}

// evict takes the place of one that runs for others that wait for it; false if nobody does. The ticket must be released soon.
func (q *queue) evict(t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := 0
	for _, ten := range q.tenants {
		waiting += ten.waiting
	}
	if t.leaving || waiting <= q.leaving {
		return t.leaving
	}
	q.take(t, t.granted, -1)
	other, _, _, _ := q.next()
	q.take(t, t.granted, 1)
	if other == nil {
		return false
	}
	t.leaving = true
	q.leaving++
	return true
}

// dispatch grants what can be granted. At each step at most as many tenants and lines are passed over as run.
func (q *queue) dispatch() {
	for q.running < q.limits.Concurrent {
		t, ten, turn, line := q.next()
		if t == nil {
			return
		}
		ten.turns.MoveToBack(line)
		q.turns.MoveToBack(turn)
		q.take(t, ten, 1)
		t.granted = ten
		q.leave(t)
		close(t.ready)
	}
}

// next is whose turn it is, with its tenant and their places among those that take turns; nil if nobody can have a place.
func (q *queue) next() (t *ticket, ten *tenant, turn, line *list.Element) {
	for e := q.turns.Front(); e != nil; e = e.Next() {
		ten := e.Value.(*tenant) //nolint:errcheck,forcetypeassert // the list has nothing else
		if ten.running >= q.limits.PerTenant || !q.spares(ten) {
			continue
		}
		for f := ten.turns.Front(); f != nil; f = f.Next() {
			l := f.Value.(*lineOf) //nolint:errcheck,forcetypeassert // the list has nothing else
			if l.host != "" && q.hosts[l.host] >= q.limits.PerHost {
				continue
			}
			return l.tickets.Front().Value.(*ticket), ten, e, f //nolint:errcheck,forcetypeassert // the list has nothing else
		}
	}
	return nil, nil, nil, nil
}

// spares tells whether a tenant may have one of the places that are left. Of those that are spare it may have a quarter of its own
// limit; the last half of them are for tenants that run nothing.
func (q *queue) spares(ten *tenant) bool {
	left := q.limits.Concurrent - q.running
	return left > q.limits.Spare || ten.running == 0 || left > q.limits.Spare/2 && ten.running < q.limits.PerTenant/4
}

// leave takes a ticket out of all lines.
func (q *queue) leave(t *ticket) {
	for name, place := range t.places {
		ten := q.tenants[name]
		l := ten.lines[t.host]
		l.tickets.Remove(place)
		if l.tickets.Len() == 0 {
			ten.turns.Remove(l.turn)
			delete(ten.lines, t.host)
		}
		if ten.waiting--; ten.waiting == 0 {
			q.turns.Remove(ten.turn)
			ten.turn = nil
		}
		delete(t.places, name)
		q.forget(ten)
	}
}

// forget drops a tenant of whom nothing is left.
func (q *queue) forget(ten *tenant) {
	if ten.running == 0 && ten.waiting == 0 {
		delete(q.tenants, ten.name)
	}
}
