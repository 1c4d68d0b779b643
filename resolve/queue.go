package resolve

import (
	"container/list"
	"context"
	"sync"
)

// For example, with 64 places of which 16 are spare, a namespace that runs 10 fetches gets no more once 48 places are taken. One that
// runs nothing gets a place up to the last. So whoever comes new does not wait for the slow remotes of others.

// queue bounds the number of fetches that run at once, overall, for each tenant and for each host. Tenants take turns, and hosts
// take turns within a tenant. So a tenant or a host that hangs delays nobody else. A fetch that several tenants wait for is in the
// lines of all of them.
type queue struct {
	limits Limits

	mu      sync.Mutex
	running int
	// leaving is the number of running fetches that have lost their place and have not ended yet.
	leaving int
	hosts   map[string]int
	tenants map[string]*tenant
	turns   list.List // tenants with waiting tickets
}

type tenant struct {
	name    string
	running int
	waiting int
	lines   map[string]*lineOf
	turns   list.List // of *lineOf that are not empty
	turn    *list.Element
}

// lineOf has the waiting tickets for one host.
type lineOf struct {
	host    string
	tickets list.List // of *ticket
	turn    *list.Element
}

// ticket is a place in line, of one or several tenants.
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

// setLimits changes the limits. Running fetches continue.
func (q *queue) setLimits(l Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limits = l
	q.startReady()
}

// enterLine puts a ticket in the line of a tenant; false if the line is full.
func (q *queue) enterLine(t *ticket, name string) bool {
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
	q.startReady()
	return true
}

// awaitTurn waits for the turn of the ticket. The caller must call the function once, to release its place.
func (q *queue) awaitTurn(ctx context.Context, t *ticket) (release func(), err error) {
	select {
	case <-t.ready:
		return func() { q.releaseTicket(t) }, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	granted := t.granted != nil
	t.gone = true
	q.leaveLines(t)
	q.mu.Unlock()
	if granted {
		q.releaseTicket(t)
	}
	return nil, context.Cause(ctx)
}

// releaseTicket gives the place of a ticket back, and starts those who can have it.
func (q *queue) releaseTicket(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.leaving {
		q.leaving--
	}
	q.adjustPlaces(t, t.granted, -1)
	q.dropIdleTenant(t.granted)
	q.startReady()
}

// adjustPlaces gives a place to a ticket, or takes it back if n is -1.
func (q *queue) adjustPlaces(t *ticket, ten *tenant, n int) {
	q.running += n
	ten.running += n
	if q.hosts[t.host] += n; q.hosts[t.host] == 0 {
		delete(q.hosts, t.host)
	}
}

// evictTicket gives the place of a running ticket to others that wait; false if none waits. The ticket must be released soon.
func (q *queue) evictTicket(t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := 0
	for _, ten := range q.tenants {
		waiting += ten.waiting
	}
	if t.leaving || waiting <= q.leaving {
		return t.leaving
	}
	q.adjustPlaces(t, t.granted, -1)
	// The places are counted without this ticket, because a ticket that waits may be kept only by the limits of its own tenant or
	// host.
	other, _, _, _ := q.nextTicket()
	q.adjustPlaces(t, t.granted, 1)
	if other == nil {
		return false
	}
	t.leaving = true
	q.leaving++
	return true
}

// startReady starts the tickets that can start. Each step skips at most as many tenants and lines as there are running fetches.
func (q *queue) startReady() {
	for q.running < q.limits.Concurrent {
		t, ten, turn, line := q.nextTicket()
		if t == nil {
			return
		}
		ten.turns.MoveToBack(line)
		q.turns.MoveToBack(turn)
		q.adjustPlaces(t, ten, 1)
		t.granted = ten
		q.leaveLines(t)
		close(t.ready)
	}
}

// nextTicket returns the ticket whose turn it is, its tenant, and their places in the rotation; nil if no ticket can start.
func (q *queue) nextTicket() (t *ticket, ten *tenant, turn, line *list.Element) {
	for e := q.turns.Front(); e != nil; e = e.Next() {
		ten := e.Value.(*tenant) //nolint:errcheck,forcetypeassert // the list has nothing else
		if ten.running >= q.limits.PerTenant || !q.sparesPlace(ten) {
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

// sparesPlace reports whether a tenant may have one of the remaining places. It may have a quarter of its own limit of the spare places.
// The last half of the spare places is for tenants that run nothing.
func (q *queue) sparesPlace(ten *tenant) bool {
	left := q.limits.Concurrent - q.running
	return left > q.limits.Spare || ten.running == 0 || left > q.limits.Spare/2 && ten.running < q.limits.PerTenant/4
}

// leaveLines removes a ticket from all lines.
func (q *queue) leaveLines(t *ticket) {
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
		q.dropIdleTenant(ten)
	}
}

// dropIdleTenant drops a tenant that has no tickets.
func (q *queue) dropIdleTenant(ten *tenant) {
	if ten.running == 0 && ten.waiting == 0 {
		delete(q.tenants, ten.name)
	}
}
