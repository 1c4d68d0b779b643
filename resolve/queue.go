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
	hosts   map[string]int
	tenants map[string]*tenant
	turns   list.List // of *tenant that have somebody waiting
}

type tenant struct {
	name    string
	running int
	waiting int
	lines   map[string]*line
	turns   list.List // of *line that are not empty
	turn    *list.Element
}

// line is who waits for one host.
type line struct {
	host    string
	tickets list.List // of *ticket
	turn    *list.Element
}

// ticket is a place in line, in those of several tenants if need be.
type ticket struct {
	host    string
	ready   chan struct{}
	granted *tenant
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
		ten = &tenant{name: name, lines: map[string]*line{}}
		q.tenants[name] = ten
	}
	if ten.waiting >= q.limits.Queued {
		return false
	}
	l := ten.lines[t.host]
	if l == nil {
		l = &line{host: t.host}
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
	q.running--
	if q.hosts[t.host]--; q.hosts[t.host] == 0 {
		delete(q.hosts, t.host)
	}
	t.granted.running--
	q.forget(t.granted)
	q.dispatch()
}

// dispatch grants what can be granted. At each step at most as many tenants and lines are passed over as run.
func (q *queue) dispatch() {
	for q.running < q.limits.Concurrent {
		t, ten := q.next()
		if t == nil {
			return
		}
		q.running++
		q.hosts[t.host]++
		ten.running++
		t.granted = ten
		q.leave(t)
		close(t.ready)
	}
}

func (q *queue) next() (*ticket, *tenant) {
	for e := q.turns.Front(); e != nil; e = e.Next() {
		ten := e.Value.(*tenant) //nolint:errcheck,forcetypeassert // the list has nothing else
		if ten.running >= q.limits.PerTenant || !q.spares(ten) {
			continue
		}
		for f := ten.turns.Front(); f != nil; f = f.Next() {
			l := f.Value.(*line) //nolint:errcheck,forcetypeassert // the list has nothing else
			if l.host != "" && q.hosts[l.host] >= q.limits.PerHost {
				continue
			}
			ten.turns.MoveToBack(f)
			q.turns.MoveToBack(e)
			return l.tickets.Front().Value.(*ticket), ten //nolint:errcheck,forcetypeassert // the list has nothing else
		}
	}
	return nil, nil
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
